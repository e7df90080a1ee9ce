"""PyFlink programs on Spark, in the shared session: they print what they print on PyFlink."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.corpus import ON_SPARK, printed, recorded


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", [*ON_SPARK, "fraud_detection"])
def test_a_program_prints_what_it_prints_on_pyflink(name: str, tmp_path: Path) -> None:
    assert printed(name, {}, tmp_path) == recorded(name)
