"""The tables about differences are about names that exist, and refer to pages that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_pages import headings_of
from tidemill import datastream
from tidemill.datastream import window
from tidemill.ops.porting.differences import DIFFERENCES, Difference, advice_for

DOCS = Path(__file__).parents[4] / "docs"


def find(place: Any, name: str) -> Any:
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: one.name)
def test_a_difference_is_about_something(difference: Difference) -> None:
    places = [datastream, window, window.Trigger]
    assert any(find(place, difference.name) is not None for place in places), f"nothing is called {difference.name}"
    page, _, anchor = difference.page.partition("#")
    assert anchor in headings_of(DOCS / page)


def test_advice() -> None:
    assert "DataFrame" in advice_for("pyflink.table.expressions.col")
    assert "Java" in advice_for("DataStream._j_data_stream")
    assert "porting.md" in advice_for("DataStream.nonsense")
