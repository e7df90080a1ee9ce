"""Which states of a file hold pickles: in any column, in any block, however deep, and however it is described."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidemill.common import Types
from tidemill.errors import CorruptFileError, SerializationError
from tidemill.state.codecs.column_codecs import METADATA_KEY, codec_for, encode_column
from tidemill.state.files.pickled_columns import pickled_states
from tidemill.state.files.state_file import Section, encode_sections


class Odd:
    """Has no form but a pickle."""


def section(state: str, **columns: tuple[Any, list[Any]]) -> Section:
    """A section with these columns, each given as its type and its values."""
    rows = len(next(iter(columns.values()))[1])
    fields, arrays = [pa.field("key_group", pa.uint16(), nullable=False)], [pa.array(range(rows), pa.uint16())]
    for name, (kind, values) in columns.items():
        field, array = encode_column(name, codec_for(kind), values)
        fields.append(field)
        arrays.append(array)
    return Section("op", state, "value", {}, pa.Table.from_arrays(arrays, schema=pa.schema(fields)))


def found(*sections: Section, block_bytes: int = 1 << 20) -> list[str]:
    data, _ = encode_sections(sections, block_bytes=block_bytes)
    return [state for operator, state in pickled_states(data, "file") if operator == "op"]


@pytest.mark.parametrize("column", ["key", "namespace", "user_key", "value"])
def test_every_column_counts(column: str) -> None:
    good: dict[str, tuple[Any, list[Any]]] = {name: (None, ["x"]) for name in ("key", "namespace", "user_key", "value")}
    assert found(section("good", **good), section("bad", **{**good, column: (None, [Odd()])})) == ["bad"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (None, [1, "a", Odd()]),
        (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [Odd()]),
        (Types.MAP(Types.STRING(), Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])), {"a": (1, Odd())}),
    ],
    ids=["mixed", "in a list", "in a tuple in a map"],
)
def test_however_deep_it_is(kind: Any, value: Any) -> None:
    assert found(section("bad", value=(kind, [value]))) == ["bad"]


def test_data_of_any_type_is_no_pickle() -> None:
    assert found(section("good", value=(None, [[1, "a", {"k": (2.5, frozenset({b"x"}))}]]))) == []


def test_every_block_is_looked_at() -> None:
    good = section("good", value=(None, ["x" * 100] * 3))
    bad = section("bad", value=(None, ["x" * 100, "y" * 100, Odd()]))
    assert found(good, bad, good, block_bytes=100) == ["bad"]


def described(field: pa.Field, description: bytes) -> pa.Field:
    return field.with_metadata({METADATA_KEY: description})


@pytest.mark.parametrize(
    "description",
    [
        b'{"v":1,"codec":"tagged","pickle":true}',
        b'{"v":1,"codec":"tagged","pickle":0}',
        b'{"v":1,"codec":"tagged"}',
        b'{"v":1,"codec":"any"}',
        b'{"v":1,"codec":"list","items":[{"deep":{"codec":"any"}}]}',
    ],
    ids=["said", "not false", "not said", "any", "deep"],
)
def test_what_does_not_say_no_counts_as_yes(description: bytes) -> None:
    made = section("bad", value=(None, ["x"]))
    schema = pa.schema([made.table.schema.field(0), described(made.table.schema.field(1), description)])
    forged = Section("op", "bad", "value", {}, made.table.cast(schema))
    assert found(forged) == ["bad"]


def test_what_is_no_state_file_or_no_description_is_named() -> None:
    with pytest.raises(CorruptFileError, match="file"):
        list(pickled_states(b"nonsense" * 10, "file"))
    made = section("bad", value=(None, ["x"]))
    schema = pa.schema([made.table.schema.field(0), described(made.table.schema.field(1), b"[]")])
    with pytest.raises(SerializationError, match="damaged description"):
        found(Section("op", "bad", "value", {}, made.table.cast(schema)))
