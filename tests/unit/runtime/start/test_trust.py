"""Files that mean harm: what a job starts from that is not its own is not unpickled, unless that is allowed."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidemill.checkpoint.savepoint import METADATA, encode_metadata, read_savepoint
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, storage_for
from tidemill.common import Types
from tidemill.common.configuration import Configuration
from tidemill.datastream import CheckpointedFunction, DataStream, StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction, MapFunction
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.errors import CorruptFileError, UntrustedStateError
from tidemill.runtime.start.trust import is_trusted
from tidemill.state.codecs.tagged_writer import TaggedWriter
from tidemill.testing import JobHarness
from tidemill.testing.scripted_source import Script

ALLOW = {"execution.state-recovery.allow-pickle": "true"}
PICKLED = Types.PICKLED_BYTE_ARRAY()


class Evil:
    """Runs code when it is unpickled."""

    ran: list[str] = []  # noqa: RUF012 - that is the point

    def __init__(self, where: str) -> None:
        self.where = where

    def __reduce__(self) -> Any:
        return run, (self.where,)

    def __deepcopy__(self, memo: Any) -> Evil:
        return self


def run(where: str) -> str:
    Evil.ran.append(where)
    return where


class Keyed(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.TUPLE([Types.LONG(), PICKLED])))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), PICKLED))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        if value == "evil value":
            self.value.update(Evil(value))
        if value == "evil list":
            self.list.add((1, Evil(value)))
        if value == "evil map":
            self.map.put("a", Evil(value))
        yield self.count.value()


class Operator(MapFunction, CheckpointedFunction):
    """Operator state of every kind."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split"))
        self.union = store.get_union_list_state(ListStateDescriptor("union"))
        self.known = store.get_broadcast_state(MapStateDescriptor("known", Types.STRING(), PICKLED))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        if value == "evil split":
            self.split.add(Evil(value))
        if value == "evil union":
            self.union.add(Evil(value))
        if value == "evil known":
            self.known.put("a", Evil(value))
        return value


def build(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    kept = words.key_by(lambda word: word, Types.STRING()).process(Keyed()).uid("keyed").name("the keyed one")
    return kept.union(words.map(Operator()).uid("operator").name("the other"))


Saved = Callable[..., str]


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Saved]:
    """Takes a savepoint of a job that has seen some words; where it is."""
    Evil.ran.clear()

    def save(*words: str, directory: Path = tmp_path / "elsewhere", inline: str = "64kb") -> str:
        settings = {"state.inline-delta-size": inline}
        with JobHarness(build, inputs=["words"], configuration=settings) as job:
            job.epoch(words=["good", *(word for word in words for _ in range(2))])  # both subtasks see each
            path = job.savepoint(directory)
        Evil.ran.clear()
        return path

    yield save
    Evil.ran.clear()


def start(path: str, **settings: str) -> list[Any]:
    """What a new job puts out that starts from there."""
    configuration = {"execution.state-recovery.path": path, **settings}
    storage = MemoryStorage()
    words = Script()
    words.add(["before"])
    try:
        with JobHarness(build, inputs={"words": words}, configuration=configuration, storage=storage) as job:
            job.epoch(words=["good"])
            return job.output()
    except UntrustedStateError:
        assert storage.list() == []
        raise


@pytest.mark.parametrize("inline", ["64kb", "0b"])
@pytest.mark.parametrize(
    ("uid", "state"),
    [
        ("keyed", "value"),
        ("keyed", "list"),
        ("keyed", "map"),
        ("operator", "split"),
        ("operator", "union"),
        ("operator", "known"),
    ],
)
def test_pickled_state_from_elsewhere_is_refused_before_it_is_read(
    saved: Saved, uid: str, state: str, inline: str
) -> None:
    path = saved(f"evil {state}", inline=inline)
    with pytest.raises(UntrustedStateError) as caught:
        start(path)
    said = str(caught.value)
    assert said.startswith(f"{path} is not in one of the job's own directories")
    assert f"{state}' of operator " in said
    assert f"(uid {uid}) in snapshots/" in said
    assert "execution.state-recovery.allow-pickle: true" in said
    assert Evil.ran == []
    assert sorted(map(str, start(path, **ALLOW))) == ["2", "good"]
    assert f"evil {state}" in Evil.ran, "it would have run"


def test_data_from_elsewhere_needs_no_permission(saved: Saved) -> None:
    assert sorted(map(str, start(saved("other")))) == ["2", "good"]


def test_all_obstacles_are_named_up_to_a_few(saved: Saved) -> None:
    path = saved("evil value", "evil list", "evil map", "evil split", "evil known")
    with pytest.raises(UntrustedStateError, match=r"(?s)state 'list'.*and 2 more"):
        start(path)


def test_what_lies_where_the_job_has_its_own_is_trusted_as_they_are(saved: Saved, tmp_path: Path) -> None:
    own = tmp_path / "savepoints"
    path = saved("evil value", directory=own)
    settings = {"execution.checkpointing.savepoint-dir": str(own)}
    assert len(start(path, **settings)) == 2
    assert "evil value" in Evil.ran
    moved = shutil.copytree(path, tmp_path / "savepoints of others")
    (own / "link").symlink_to(moved)
    for elsewhere in (str(moved), str(own / "link"), f"{own}/../savepoints of others"):
        with pytest.raises(UntrustedStateError):
            start(elsewhere, **settings)


def test_a_job_unpickles_its_own_checkpoints(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, durable=False)
    with JobHarness(build, inputs=["words"], storage=storage) as job:
        job.epoch(words=["evil value"])
        Evil.ran.clear()
        job.restart()
        job.epoch(words=["evil value"])
        assert "evil value" in Evil.ran


@pytest.mark.parametrize(
    ("path", "directory", "trusted"),
    [
        ("s3://bucket/saved/savepoint-1", "s3://bucket/saved", True),
        ("s3://bucket/saved/savepoint-1", "s3://bucket/saved/", True),
        ("s3://bucket/saved-by-others/savepoint-1", "s3://bucket/saved", False),
        ("s3://bucket/saved/../others", "s3://bucket/saved", False),
        ("s3://bucket/saved/%2e%2e/others", "s3://bucket/saved", False),
        ("s3://other/saved/savepoint-1", "s3://bucket/saved", False),
        ("/bucket/saved/savepoint-1", "s3://bucket/saved", False),
        ("file:///saved/savepoint-1", "/saved", True),
        ("/saved/../others/savepoint-1", "/saved", False),
    ],
)
def test_where_a_job_has_its_own(path: str, directory: str, trusted: bool) -> None:
    configuration = Configuration.from_dict({"execution.checkpointing.dir": directory})
    assert is_trusted(path, configuration) is trusted
    assert not is_trusted(path, Configuration())


def test_results_that_a_sink_would_unpickle_are_refused(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "job", durable=False)
    with JobHarness(build, inputs=["words"], storage=storage) as job:
        job.epoch(words=["good"])
    with pytest.raises(UntrustedStateError, match=r"results to be committed of operator 'Sink: RecordingSink'"):
        start(str(tmp_path / "job"))


def forged(path: str, **changes: Any) -> None:
    """Another manifest in a savepoint, with all checksums right."""
    storage = storage_for(path)
    state = read_savepoint(storage, path)
    Path(path, METADATA).unlink()
    storage.create(METADATA, encode_metadata(replace(state.manifest, **changes), state.files, 0))


def test_what_a_watermark_generator_remembers_is_not_unpickled(saved: Saved) -> None:
    path = saved()
    kept = base64.b64encode(TaggedWriter().dumps({"seen": [1, Evil("generator")]})).decode()
    forged(path, times={"keyed": (None, [[None, 5, False, None, kept]])})
    with pytest.raises(UntrustedStateError, match=r"the watermark generator of operator 'the keyed one'.*_metadata"):
        start(path)
    forged(path, times={"keyed": ([[None, 5, False, None, "bm9uc2Vuc2U="]],)})
    with pytest.raises(CorruptFileError, match="watermark generator of the operator with uid keyed"):
        start(path)
    assert Evil.ran == []


@pytest.mark.parametrize("allowed", [False, True])
def test_a_dry_run_reports_it(saved: Saved, allowed: bool) -> None:
    path = saved("evil value")
    settings = {"execution.target": "local", **(ALLOW if allowed else {})}
    env = StreamExecutionEnvironment(Configuration.from_dict(settings))
    words = env.from_collection(["a"]).key_by(lambda word: word, Types.STRING())
    words.process(Keyed()).uid("keyed").print().uid("out")
    report = env.check_upgrade(path)
    refused = [(c.operator, c.state, c.stored) for c in report.refused if c.error is UntrustedStateError]
    assert refused == ([] if allowed else [("keyed", "state 'value'", "pickled")])
    assert Evil.ran == (["evil value"] if allowed else [])  # what a start would read, a dry run reads
