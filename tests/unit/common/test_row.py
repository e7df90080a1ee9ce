"""Row: PyFlink's behaviour, equal hashes for equal rows, small pickles."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common import Row, RowKind


def test_positional() -> None:
    row = Row(1, "a")
    assert (row[0], row[1], row[-1], row[0:2]) == (1, "a", "a", [1, "a"])
    assert list(row) == [1, "a"]
    assert len(row) == 2
    assert "a" in row
    assert repr(row) == "<Row(1, 'a')>"
    row[1] = "b"
    assert row == Row(1, "b")
    with pytest.raises(TypeError):
        row.as_dict()
    with pytest.raises(ValueError, match="no names"):
        row["x"]
    with pytest.raises(AttributeError):
        row.x  # noqa: B018


def test_named_in_the_order_given() -> None:
    row = Row(name="Alice", age=11)
    assert (row["name"], row.age, row[0]) == ("Alice", 11, "Alice")
    assert ("name" in row, "Alice" in row) == (True, False)
    assert repr(row) == "Row(name='Alice', age=11)"
    row["age"] = 12
    assert row.as_dict() == {"name": "Alice", "age": 12}
    assert row.get_fields_by_names(["age", "name"]) == [12, "Alice"]
    with pytest.raises(ValueError, match="no field 'x'; its fields are name, age"):
        row["x"]
    with pytest.raises(ValueError, match="no field 'x'"):
        row["x"] = 1
    with pytest.raises(AttributeError):
        row.x  # noqa: B018
    with pytest.raises(AttributeError):
        row.other = 1  # type: ignore[attr-defined]


def test_values_are_positional_or_named() -> None:
    with pytest.raises(ValueError, match="Can not use both args and kwargs"):
        Row(1, a=2)


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("Bob", 5) == Row(name="Bob", age=5)
    assert person("Bob").as_dict() == {"name": "Bob"}
    assert hash(person("Bob")) == hash(person("Bob"))
    assert "name" in person
    with pytest.raises(ValueError, match="expected 2 values but got"):
        person(1, 2, 3)


def test_field_names_can_be_given_later() -> None:
    row = Row(1, "a")
    row.set_field_names(["id", "name"])
    assert row.name == "a"
    assert row.get_field_names() == ("id", "name")
    with pytest.raises(ValueError, match="1 field names for a Row of 2 values"):
        row.set_field_names(["id"])


def test_dicts_inside_out() -> None:
    row = Row(key=1, value=Row(a=2), many=[Row(b=3)], by={"x": Row(c=4)})
    assert row.as_dict()["value"] == Row(a=2)
    assert row.as_dict(True) == {"key": 1, "value": {"a": 2}, "many": [{"b": 3}], "by": {"x": {"c": 4}}}


def test_kinds() -> None:
    assert Row(1).get_row_kind() is RowKind.INSERT
    row = Row.of_kind(RowKind.DELETE, a=1)
    assert row.get_row_kind() is RowKind.DELETE
    assert row != Row(a=1)
    row.set_row_kind(RowKind.INSERT)
    assert row == Row(a=1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_equality() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))
    assert Row(a=1, b=2) != Row(a=2, b=1)
    assert Row(a=1) != Row(b=1)
    assert Row(1) != Row(a=1)
    assert Row(1) != (1,)
    assert Row(1, 2) != Row(2, 1)
    assert {Row(1, "a"): "x"}[Row(1, "a")] == "x"


def test_many_rows_from_columns() -> None:
    rows = Row.of_columns(("id", "name"), [[1, 2], ["a", "b"]])
    assert rows == [Row(id=1, name="a"), Row(id=2, name="b")]
    assert Row.of_columns(None, [[1, 2], [3, 4]]) == [Row(1, 3), Row(2, 4)]
    rows[0]["id"] = 9
    assert rows[1]["id"] == 2
    assert Row.of_columns((), []) == []
    with pytest.raises(ValueError, match="1 field names for 2 columns"):
        Row.of_columns(("id",), [[1], [2]])
    with pytest.raises(ValueError, match="shorter"):
        Row.of_columns(None, [[1, 2], [3]])


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1), st.sampled_from(RowKind))
def test_pickle_and_copies_keep_everything(fields: dict[str, int], kind: RowKind) -> None:
    for row in (Row.of_kind(kind, *fields.values()), Row.of_kind(kind, **fields)):
        for other in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
            assert other == row
            assert hash(other) == hash(row)
            assert repr(other) == repr(row)
            other[0] = None
            assert row[0] is not None, "a copy has its own values"


def test_field_names_are_pickled_once_for_a_batch() -> None:
    def size(rows: int) -> int:
        return len(pickle.dumps([Row(a_rather_long_name=i, another_long_name="x") for i in range(rows)], protocol=5))

    per_row = (size(1100) - size(100)) / 1000
    assert per_row < 25, f"{per_row} bytes a row"
