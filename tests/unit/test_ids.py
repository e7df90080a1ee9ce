"""Names of tests: what would be another name in another process is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ids import changes, id_of


@pytest.mark.parametrize("value", [frozenset({1, "a"}), {1, 2}, [1, {"a", "b"}], object(), {"a": {1, 2}}], ids=id_of)
def test_sets_and_addresses_change(value: Any) -> None:
    assert changes(repr(value))
    assert id_of(value) == type(value).__name__


@pytest.mark.parametrize("value", [{"a": 1, "b": 2}, {1}, (1, "a"), "at noon", {"a": [1, {2}]}], ids=id_of)
def test_what_has_one_text_is_named_by_it(value: Any) -> None:
    assert not changes(repr(value))
    assert id_of(value) == repr(value)
