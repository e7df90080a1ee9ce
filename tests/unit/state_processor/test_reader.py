"""The state of a job as data: tables, Python values, epochs, and what happens with what is not there."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill import state_processor
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, Storage
from tidemill.common import Types
from tidemill.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import CheckpointError, ConfigurationError, CorruptFileError, SerializationError, StateError
from tidemill.state.keyed import collection_states
from tidemill.state.keys.key_groups import key_group_of
from tidemill.state_processor import SavepointReader
from tidemill.state_processor.reader import StatePart
from tidemill.testing import JobHarness

Env = StreamExecutionEnvironment


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Place:
    city: str
    pair: Pair
    color: Color
    tags: list[str]


class Remember(KeyedProcessFunction):
    """Every kind of state. A record is (key, n); n < 0 clears."""

    def open(self, runtime_context: RuntimeContext) -> None:
        c = runtime_context
        self.count = c.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.place = c.get_state(ValueStateDescriptor("place", Types.DATACLASS(Place)))
        self.mixed = c.get_state(ValueStateDescriptor("mixed"))
        self.list = c.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = c.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.DOUBLE()))
        self.most = c.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, n = value
        if n < 0:
            for state in (self.count, self.place, self.mixed, self.list, self.map, self.most):
                state.clear()
            return
        self.count.update((self.count.value() or 0) + 1)
        self.place.update(Place(key, Pair(n, "x" * n), Color.BLUE if n % 2 else Color.RED, [key] * n))
        self.mixed.update([n, str(n), Pair(n, "y"), {"n": n}, Color.RED][n % 5])
        self.list.add(n)
        self.map.put(f"m{n}", n / 2)
        if n > 2:
            self.map.remove("m0")
        self.most.add(n)
        ctx.timer_service().register_processing_time_timer(10**15 + n)
        yield value


def remember(env: Env, records: DataStream) -> DataStream:
    return records.key_by(lambda record: record[0], Types.STRING()).process(Remember()).uid("remember").name("Memory")


EPOCHS = [
    [(key, n) for n, key in enumerate("abcab")],
    [("a", 5), ("d", 1), ("b", -1)],
    [("b", 7), ("c", 3)],
    [("a", 6)],
]


def run(storage: Storage | None = None, *, merge_after: int = 8, inline: str = "64kb") -> JobHarness:
    configuration = {"state.inline-delta-size": inline} if inline != "64kb" else {}
    job = JobHarness(
        remember, inputs=["records"], storage=storage, merge_after=merge_after, configuration=configuration
    )
    for records in EPOCHS:
        job.epoch(records=records)
    return job


@pytest.fixture
def job() -> Iterator[JobHarness]:
    with run() as job:
        yield job


@pytest.fixture
def state(job: JobHarness) -> SavepointReader:
    return state_processor.read(job.storage)


def rows(table: pa.Table, *columns: str) -> dict[Any, Any]:
    """key -> the rest of the row, or the only other column."""
    found = [table.column(name).to_pylist() for name in columns or ("key", "value")]
    return {row[0]: row[1] if len(row) == 2 else row[1:] for row in zip(*found, strict=True)}


def test_what_there_is(state: SavepointReader) -> None:
    (operator,) = state.operators()
    assert (operator.uid, operator.name, operator.keyed) == ("remember", "Memory", True)
    assert operator.max_parallelism == 1024
    found = {info.name: (info.kind, info.types) for info in operator.states}
    assert found == {
        "count": ("value", {"key": "String", "value": "Long"}),
        "place": (
            "value",
            {
                "key": "String",
                "value": f"{__name__}:Place(city: String, pair: {__name__}:Pair(left: Long, right: String), "
                f"color: {__name__}:Color, tags: ListTypeInfo<String>)",
            },
        ),
        "mixed": ("value", {"key": "String", "value": "PickledByteArrayTypeInfo"}),
        "list": ("list", {"key": "String", "value": "Long"}),
        "map": ("map", {"key": "String", "user_key": "String", "value": "Double"}),
        "most": ("reducing", {"key": "String", "value": "Long"}),
    }
    assert all(info.rows > 0 and info.bytes > 0 for info in operator.states)
    assert operator.timers > 0
    assert (state.job_id, state.epoch) == ("job-harness", 4)


def test_tables_are_what_a_restore_would_load(job: JobHarness, state: SavepointReader) -> None:
    for name in ("count", "most", "list"):
        assert rows(state.keyed_state("remember", name)) == job.state("remember", name)
    places = rows(state.keyed_state("remember", "place"))
    assert places["d"] == {"city": "d", "pair": {"left": 1, "right": "x"}, "color": "BLUE", "tags": ["d"]}
    assert places.keys() == job.state("remember", "place").keys()
    maps: dict[str, dict[str, float]] = {}
    for row in state.keyed_state("remember", "map").to_pylist():
        maps.setdefault(row["key"], {})[row["map_key"]] = row["value"]
    assert maps == job.state("remember", "map")
    assert list(maps["a"]) == list(job.state("remember", "map")["a"])


def test_types_are_natural(state: SavepointReader) -> None:
    text = pa.large_string()
    pair = pa.struct([("left", pa.int64()), ("right", text)])
    place = pa.struct([("city", text), ("pair", pair), ("color", text), ("tags", pa.large_list(text))])
    assert state.schema("remember", "count") == pa.schema([("key", text), ("value", pa.int64())])
    assert state.schema("remember", "place").field("value").type == place
    assert state.schema("remember", "list").field("value").type == pa.large_list(pa.int64())
    assert state.schema("remember", "map").names == ["key", "map_key", "value"]
    assert state.schema("remember", "map").field("value").type == pa.float64()


def test_values_without_a_common_type_are_json(state: SavepointReader) -> None:
    table = state.keyed_state("remember", "mixed")
    assert table.schema.field("value").metadata == {b"tidemill.shown": b"json"}
    assert rows(table) == {"a": '"6"', "b": '[7, "y"]', "c": '{"n": 3}', "d": '"1"'}


def test_values_without_their_classes(state: SavepointReader) -> None:
    place = state.get("remember", "place", "d")
    assert place == {"city": "d", "pair": {"left": 1, "right": "x"}, "color": "BLUE", "tags": ["d"]}
    assert state.get("remember", "list", "a") == [0, 3, 5, 6]
    assert state.get("remember", "map", "b") == {"m7": 3.5}
    assert state.get("remember", "count", "nobody") is None
    assert {entry.key: entry.value for entry in state.entries("remember", "count")} == {"a": 4, "b": 1, "c": 2, "d": 1}
    assert [entry for entry in state.entries("remember", "map") if entry.key == "b"] == [
        state_processor.Entry("b", None, "m7", 3.5)
    ]


def test_values_of_a_trusted_job_are_those_that_were_stored(job: JobHarness) -> None:
    state = state_processor.read(job.storage, allow_pickle=True)
    for name in ("place", "mixed"):
        assert {entry.key: entry.value for entry in state.entries("remember", name)} == job.state("remember", name)
    assert state.get("remember", "place", "d") == Place("d", Pair(1, "x"), Color.BLUE, ["d"])


def test_earlier_epochs(job: JobHarness) -> None:
    head = state_processor.read(job.storage)
    assert [info.epoch for info in head.epochs()] == [0, 1, 2, 3, 4]
    counts = [
        rows(state_processor.read(job.storage, epoch=epoch).keyed_state("remember", "count")) for epoch in (1, 2, 3, 4)
    ]
    assert counts == [
        {"a": 2, "b": 2, "c": 1},
        {"a": 3, "c": 1, "d": 1},
        {"a": 3, "b": 1, "c": 2, "d": 1},
        {"a": 4, "b": 1, "c": 2, "d": 1},
    ]
    with pytest.raises(StateError, match="epoch 0 of job job-harness has no state of an operator"):
        state_processor.read(job.storage, epoch=0).keyed_state("remember", "count")


def test_an_epoch_that_was_let_go_is_an_error_that_names_others() -> None:
    with run(merge_after=2) as job:
        for n in range(60):
            job.epoch(records=[("z", n)])
        readable = [info.epoch for info in state_processor.read(job.storage).epochs()]
        assert readable[-1] == 64
        assert 2 not in readable
        with pytest.raises(CheckpointError, match=r"epoch 2 of job job-harness cannot be read .*63, 64"):
            state_processor.read(job.storage, epoch=2)
        assert state_processor.read(job.storage, epoch=63).get("remember", "count", "z") == 59


def test_merged_state_reads_the_same(job: JobHarness) -> None:
    with run(merge_after=2) as merged:
        state, other = state_processor.read(job.storage), state_processor.read(merged.storage)
        assert any(name.startswith("snapshots/") for name in merged.storage.list())
        for name in ("count", "place", "mixed", "list", "map", "most"):
            tables = [reader.keyed_state("remember", name) for reader in (state, other)]
            assert sorted(map(str, tables[0].to_pylist())) == sorted(map(str, tables[1].to_pylist()))


def test_timers(job: JobHarness, state: SavepointReader) -> None:
    table = state.timers("remember")
    assert table.column_names == ["domain", "key", "timestamp"]
    assert set(table.column("domain").to_pylist()) == {"processing"}
    times = table.column("timestamp").to_pylist()
    assert times == sorted(times)
    assert len(times) == 10
    assert state_processor.read(job.storage).timers("output-output").num_rows == 0


def test_some_key_groups(state: SavepointReader) -> None:
    whole = rows(state.keyed_state("remember", "count"))
    group = key_group_of("a", 1024)
    assert rows(state.keyed_state("remember", "count", key_groups=(group, group))) == {"a": 4}
    low, high = ((0, 511), (512, 1023))
    parts = [rows(state.keyed_state("remember", "list", key_groups=part)) for part in (low, high)]
    assert parts[0].keys().isdisjoint(parts[1])
    assert parts[0].keys() | parts[1].keys() == whole.keys()
    with pytest.raises(StateError, match="invalid key groups 5 to 4"):
        state.keyed_state("remember", "count", key_groups=(5, 4))


def test_batches_are_read_when_they_are_requested(monkeypatch: pytest.MonkeyPatch, state: SavepointReader) -> None:
    monkeypatch.setattr("tidemill.state_processor.reader._SLICE_BYTES", 100)
    batches = state.iter_batches("remember", "count")
    read: list[Any] = []
    table = StatePart.table

    def counted(part: StatePart) -> Any:
        read.append(part)
        return table(part)

    monkeypatch.setattr(StatePart, "table", counted)
    first = next(batches)
    early = len(read)
    rest = list(batches)
    assert 0 < early < len(read)
    assert rows(pa.Table.from_batches([first, *rest])) == {"a": 4, "b": 1, "c": 2, "d": 1}


def test_a_whole_job_directory_and_one_of_several(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(LocalStorage(tmp_path / name, durable=False)).close()
    assert state_processor.read(tmp_path / "one").epoch == 4
    assert SavepointReader.read(f"file://{tmp_path}/two").epoch == 4
    assert state_processor.read(tmp_path / "one", job_id="job-harness").epoch == 4
    with pytest.raises(CheckpointError, match="contains several jobs; pass one of them as job_id: one, two"):
        state_processor.read(tmp_path)
    with pytest.raises(CheckpointError, match="does not contain job 'three', only one, two"):
        state_processor.read(tmp_path, job_id="three")
    with pytest.raises(CheckpointError, match="belongs to job 'job-harness'"):
        state_processor.read(tmp_path / "one", job_id="other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty is not the directory of a job"):
        state_processor.read(tmp_path / "empty")


@pytest.mark.parametrize(
    ("uid", "name", "message"),
    [
        ("rememver", "count", r"no state of an operator with uid 'rememver'; did you mean 'remember'"),
        ("Memory", "count", r"did you mean .*'Memory' \(uid 'remember'\)"),
        ("remember", "cuont", r"no state 'cuont' of the operator with uid 'remember'; did you mean 'count'"),
    ],
)
def test_unknown_names_come_with_a_suggestion(state: SavepointReader, uid: str, name: str, message: str) -> None:
    for ask in (state.keyed_state, state.schema, state.operator_state):
        with pytest.raises(StateError, match=message):
            ask(uid, name)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    run(LocalStorage(tmp_path / "job", durable=False), inline="0").close()
    files = sorted((tmp_path / "job" / "state").rglob("*.tms"))
    assert files
    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 1
        file.write_bytes(data)
    with pytest.raises(CorruptFileError, match=r"state/.*\.tms"):
        state_processor.read(tmp_path / "job").keyed_state("remember", "count")


def test_a_damaged_head_offers_what_is_left(tmp_path: Path) -> None:
    run(LocalStorage(tmp_path / "job", durable=False)).close()
    storage = LocalStorage(tmp_path / "job")
    last = max(storage.list("manifests/"))
    (tmp_path / "job" / last).write_bytes(b"TMMANIF\nnonsense")
    with pytest.raises(CorruptFileError, match="last manifest before it that can be restored is slot"):
        state_processor.read(tmp_path / "job")
    assert state_processor.read(tmp_path / "job", epoch=3).get("remember", "count", "a") == 3


def test_an_epoch_that_goes_while_it_is_read() -> None:
    with run(inline="0") as job:
        old = state_processor.read(job.storage)
        job.epoch(records=[("a", 1)])
        job.storage.delete(job.storage.list("state/"))
        with pytest.raises(CheckpointError, match="epoch 4 of job job-harness was removed while it was being read"):
            old.keyed_state("remember", "count")


def test_reading_leaves_the_job_alone(job: JobHarness) -> None:
    before = {name: job.storage.read(name) for name in job.storage.list()}
    reader = state_processor.read(job.storage)
    reader.operators()
    reader.epochs()
    reader.keyed_state("remember", "list")
    assert {name: job.storage.read(name) for name in job.storage.list()} == before
    job.epoch(records=[("a", 1)])
    assert reader.epoch == 4
    assert state_processor.read(job.storage).epoch == 5


def test_duckdb_queries_the_tables(state: SavepointReader) -> None:
    counts = state.keyed_state("remember", "count")
    places = state.record_batches("remember", "place")
    sql = """
        select p.value.color as color, sum(c.value)::int as n
        from places p join counts c using (key) group by all order by all
    """
    assert duckdb.execute(sql).fetchall() == [("BLUE", 4), ("RED", 4)]
    assert counts.num_rows == 4
    assert places.schema.names == ["key", "value"]


def test_an_export_is_read_by_others(tmp_path: Path, state: SavepointReader) -> None:
    target = tmp_path / "places.parquet"
    assert state.export(target, "remember", "place") == 4
    query = "select key, value.pair.left, list_sort(value.tags) from read_parquet(?) order by key"
    assert duckdb.execute(query, [str(target)]).fetchall()[-1] == ("d", 1, ["d"])
    assert pq.read_table(target).num_rows == 4
    state.export(tmp_path / "map.arrow", "remember", "map", format="arrow")
    with pa.ipc.open_file(tmp_path / "map.arrow") as file:
        assert file.read_all().equals(state.keyed_state("remember", "map"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.arrow", "places.parquet"]
    with pytest.raises(ConfigurationError, match="cannot export as 'orc'; formats are arrow, csv, parquet"):
        state.export(tmp_path / "x", "remember", "place", format="orc")


def test_a_single_key_reads_its_group_only(tmp_path: Path) -> None:
    """Of a large file only the index and the blocks of that group are fetched."""

    class Counting(LocalStorage):
        fetched = 0

        def read_range(self, name: str, offset: int, length: int) -> bytes:
            data = super().read_range(name, offset, length)
            Counting.fetched += len(data)
            return data

    def build(env: Env, keys: DataStream) -> DataStream:
        return keys.key_by(lambda key: key, Types.LONG()).map_with_state(lambda key, n: (key, "x" * 200)).uid("s")

    with JobHarness(build, inputs=["keys"], parallelism=1, storage=LocalStorage(tmp_path, durable=False)) as job:
        job.epoch(keys=range(100_000))
    size = sum(path.stat().st_size for path in (tmp_path / "state").rglob("*.tms"))
    assert size > 20_000_000
    state = state_processor.read(Counting(tmp_path))
    assert state.get("s", "with-state", 4711) == "x" * 200
    assert 0 < Counting.fetched < size / 3


# --- files that mean harm


class Evil:
    """Runs code when it is unpickled."""

    ran: list[str] = []  # noqa: RUF012 - that is the point

    def __init__(self, where: str) -> None:
        self.where = where

    def __reduce__(self) -> Any:
        return _run, (self.where,)

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evil)


def _run(where: str) -> str:
    Evil.ran.append(where)
    return where


class Plant(KeyedProcessFunction):
    """Pickles in every column that can hold one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))
        self.inside = runtime_context.get_state(ValueStateDescriptor("inside", Types.TUPLE([Types.LONG(), PICKLED])))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.value.update(Evil("value"))
        self.list.add_all([1, Evil("list")])
        self.map.put(Evil("map key"), Evil("map value"))
        self.inside.update((1, Evil("inside")))
        yield value


PICKLED = Types.PICKLED_BYTE_ARRAY()
PLANTED = ("value", "list", "map", "inside")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    # Nobody can put such a user key, but a file may have been made by anybody.
    monkeypatch.setattr(collection_states, "checked_key", lambda key: key)

    def build(env: Env, keys: DataStream) -> DataStream:
        return keys.key_by(lambda key: key).process(Plant()).uid("plant")

    with JobHarness(build, inputs=["keys"]) as job:
        job.epoch(keys=["k"])
        Evil.ran.clear()
        yield job.storage


@pytest.mark.parametrize("name", PLANTED)
def test_no_pickle_runs_unless_it_is_allowed(planted: Storage, name: str) -> None:
    state = state_processor.read(planted)
    state.operators()
    (row,) = state.keyed_state("plant", name).to_pylist()
    assert "$pickle" in str(row)
    with pytest.raises(SerializationError, match=r"pickled.*allow_pickle=True"):
        state.get("plant", name, "k")
    with pytest.raises(SerializationError, match=r"pickled.*allow_pickle=True"):
        list(state.entries("plant", name))
    assert Evil.ran == []


def test_a_trusted_pickle_is_unpickled(planted: Storage) -> None:
    state = state_processor.read(planted, allow_pickle=True)
    assert state.get("plant", "value", "k") == "value"
    assert state.get("plant", "inside", "k") == (1, "inside")
    assert state.keyed_state("plant", "list").column("value").to_pylist() == [["1", '"list"']]
    assert "value" in Evil.ran


def test_no_module_that_a_file_names_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "harmful_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    @dataclass
    class Thing:
        n: int

    Thing.__module__, Thing.__qualname__ = "harmful_module", "Thing"

    class Store(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("thing", Types.DATACLASS(Thing)))

        def process_element(self, value: Any, ctx: Any) -> None:
            self.state.update(Thing(7))

    def build(env: Env, keys: DataStream) -> DataStream:
        return keys.key_by(lambda key: key).process(Store()).uid("op")

    storage = MemoryStorage()
    with JobHarness(build, inputs=["keys"], storage=storage) as job:
        job.epoch(keys=["k"])
    state = state_processor.read(storage)
    assert state.get("op", "thing", "k") == {"n": 7}
    assert state.keyed_state("op", "thing").to_pylist() == [{"key": "k", "value": {"n": 7}}]


# --- state that a program has migrated


@pytest.mark.parametrize("merge_after", [2, 100])
def test_a_migrated_state_is_read_in_its_new_type_only(merge_after: int) -> None:
    def program(*, old: bool) -> Any:
        class Keep(KeyedProcessFunction):
            def open(self, runtime_context: Any) -> None:
                text = ValueStateDescriptor("kept", Types.STRING())
                number = ValueStateDescriptor("kept", Types.LONG()).migrate_from(Types.STRING(), len)
                self._kept = runtime_context.get_state(text if old else number)

            def process_element(self, value: Any, ctx: Any) -> Any:
                self._kept.update(value)
                yield value

        return lambda env, words: words.key_by(lambda w: str(w)[0], Types.STRING()).process(Keep()).uid("keep")

    with JobHarness(program(old=True), inputs=["words"], merge_after=merge_after) as job:
        job.epoch(words=["tea", "milk"])
        job.restart(build=program(old=False))
        for number in range(3):
            job.epoch(words=[number])
        found = state_processor.read(job.storage).keyed_state("keep", "kept")
    assert str(found.schema.field("value").type) == "int64"
    kept = {row["key"]: row["value"] for row in found.to_pylist()}
    assert kept == {"t": 3, "m": 4, "0": 0, "1": 1, "2": 2}
