"""Pages of state: all kinds of state and keys, in pages of any size, without running what is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidemill import state_processor
from tidemill.common import Types
from tidemill.datastream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.ops.rest import state_pages
from tidemill.ops.rest.errors import BadRequestError
from tidemill.ops.rest.state_pages import PagePosition, entries_of_key, key_from, page_from
from tidemill.state_processor import OperatorInfo, SavepointReader, StateInfo
from tidemill.testing import JobHarness

KEYS: list[Any] = [("a", 1), ("a", 2), ("b", 1), *((letter, 0) for letter in "cdefghij")]


class Touched:
    """Something pickled that would leave a trace if it were unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (self.path, "w")) if self.path.endswith("touched") else (Touched, (self.path,))


class Keeps(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", Types.LONG()))
        self.words = runtime_context.get_list_state(ListStateDescriptor("words", Types.STRING()))
        self.pairs = runtime_context.get_map_state(MapStateDescriptor("pairs", Types.STRING(), Types.LONG()))
        self.things = runtime_context.get_state(ValueStateDescriptor("things", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.numbers.update(value[1])
        self.words.add(value[0] * 3)
        self.pairs.put(value[0], value[1])
        self.pairs.put("x", 9)
        if value[0] == "b":
            self.things.update(Touched("/nowhere"))
        self.words.add("long " * 10_000 if value[0] == "c" else "short")


def program(env: Any, records: Any) -> None:
    kept = records.key_by(lambda value: value, key_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
    kept.process(Keeps(), Types.LONG()).uid("keeps")


@pytest.fixture(scope="module")
def reader() -> Iterator[SavepointReader]:
    with JobHarness(program, inputs=["records"]) as job:
        job.epoch(records=KEYS[:5])
        job.epoch(records=KEYS[5:])
        yield state_processor.read(job.storage)


def found(reader: SavepointReader, name: str) -> tuple[OperatorInfo, StateInfo]:
    (operator,) = reader.operators()
    return operator, next(state for state in operator.states if state.name == name)


@pytest.mark.parametrize(
    ("limit", "chunk"),
    [(3, 1), *((limit, chunk) for limit in (1, 2, 7, 11, 100) for chunk in (700, 1 << 20))],
)
def test_pages_of_any_size_show_every_entry_once(
    reader: SavepointReader, monkeypatch: pytest.MonkeyPatch, limit: int, chunk: int
) -> None:
    monkeypatch.setattr(state_pages, "_CHUNK", chunk)
    place: PagePosition | None = PagePosition(reader.epoch)
    seen: list[Any] = []
    while place is not None:
        entries, place = page_from(reader, *found(reader, "numbers"), place, limit)
        assert len(entries) <= limit
        seen += entries
        place = None if place is None else PagePosition.of(str(place))
    assert sorted(tuple(entry["key"]) for entry in seen) == sorted(KEYS)
    assert all(entry["value"] == entry["key"][1] for entry in seen)


def test_a_page_that_takes_too_long_ends_early(reader: SavepointReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_pages, "_CHUNK", 1)
    monkeypatch.setattr(state_pages, "_SECONDS", -1.0)
    entries, place = page_from(reader, *found(reader, "numbers"), PagePosition(reader.epoch), 100)
    assert len(entries) < len(KEYS)
    assert place is not None


@pytest.mark.parametrize(
    ("state", "key", "entries"),
    [
        ("numbers", '["a", 2]', [{"key": ["a", 2], "value": 2}]),
        ("words", '["b", 1]', [{"key": ["b", 1], "value": ["bbb", "short"]}]),
        (
            "pairs",
            '["a", 1]',
            [{"key": ["a", 1], "map_key": "a", "value": 1}, {"key": ["a", 1], "map_key": "x", "value": 9}],
        ),
        ("numbers", '["z", 1]', []),
        ("numbers", "text", []),
    ],
)
def test_a_key_is_found_in_every_kind_of_state(
    reader: SavepointReader, state: str, key: str, entries: list[Any]
) -> None:
    assert entries_of_key(reader, *found(reader, state), key_from(key)) == entries


def test_long_values_are_cut_off(reader: SavepointReader) -> None:
    (entry,) = entries_of_key(reader, *found(reader, "words"), ("c", 0))
    assert entry["value"]["$truncated"].startswith('["ccc", "long long')
    assert len(entry["value"]["$truncated"]) == state_pages._LONGEST


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    trap = tmp_path / "touched"

    def keep(env: Any, records: Any) -> None:
        records.key_by(lambda value: "k").process(Trap(str(trap)), Types.LONG()).uid("keeps")

    with JobHarness(keep, inputs=["records"]) as job:
        job.epoch(records=[1])
        trap.unlink(missing_ok=True)
        reader = state_processor.read(job.storage)
        (entry,) = entries_of_key(reader, *found(reader, "things"), "k")
        assert set(entry["value"]) == {"$pickle"}
        assert not trap.exists()
    pickle.loads(pickle.dumps(Touched(str(trap)))).close()
    assert trap.exists(), "else this would test nothing"


class Trap(KeyedProcessFunction):
    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, runtime_context: Any) -> None:
        self.things = runtime_context.get_state(ValueStateDescriptor("things", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.things.update(Touched(self.path))


@pytest.mark.parametrize("key", ['{"a": 1}', '[{"a": 1}]', "[" * 100_000], ids=["object", "object inside", "deep"])
def test_what_cannot_be_a_key_is_refused(reader: SavepointReader, key: str) -> None:
    with pytest.raises(BadRequestError, match="key: "):
        entries_of_key(reader, *found(reader, "numbers"), key_from(key))
