"""Watched directories on Spark: each path is read once, whatever its name and its dates, over kills and starts."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import urllib.parse
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.watched.make import BEGUN, FILES, PLACEHOLDER
from tests.object_store import BUCKET, Server
from tests.spark.jobs import add_file, durable, environment
from tests.spark.kafka_jobs import Count, seen
from tests.spark.processes import fault, run
from tests.spark.programs import watched_job
from tests.thorough import WHEN_THOROUGH
from tests.waiting import eventually
from tidemill.common import Encoder, JobClient, Row, Types
from tidemill.connectors.object_store import ObjectStore
from tidemill.datastream import MapFunction, RuntimeContext
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.errors import CheckpointError, LostInputError, TidemillError

SECONDS = 60
DAY = 86_400
FILES_PER_KILL = 3
FIXTURE = Path(__file__).parents[1] / "fixtures" / "watched" / "v1"
#: Names that mean something else to a URI, a pattern or Hadoop.
ODD_NAMES = [
    "12:30:00.json",
    "a b",
    "a%20b",
    "a#b?c",
    "a[1-3]",
    "a{b,c}*",
    "a\\b",
    "a\nb",
    "a=b",
    "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n",
    "+a&b;c",
]


def counting(source: Path | str, folder: Path, job_id: str = "job", **options: str) -> JobClient:
    """Count the words of a watched path, exactly once."""
    env = environment(durable(folder / "checkpoints", job_id, **{"pipeline.max-parallelism": "8", **options}))
    words = env.read_json(str(source), "word STRING", watch=True).uid("words").map(lambda row: row[0], Types.STRING())
    counts = words.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count")
    counts.sink_to(
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    ).uid("sink")
    return env.execute_async(job_id)


def add_word(path: Path, word: str, modified: float | None = None) -> None:
    hidden = path.with_name(f".{uuid.uuid4().hex}")
    hidden.write_text(json.dumps({"word": word}) + "\n")
    if modified is not None:
        os.utime(hidden, (modified, modified))
    hidden.rename(path)


def shows(folder: Path, client: JobClient, expected: Counter[str]) -> None:
    """Wait until a job has written so much, and see that it is this."""
    ended = client.get_job_execution_result()
    eventually(lambda: ended.done() or seen(folder).total() >= expected.total(), shown=lambda: seen(folder))
    if ended.done():
        ended.result()
    assert seen(folder) == expected


def test_dates_and_names_of_files_do_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    """One file of the future stopped all later ones, old ones were never read, and a touched one twice."""
    source, now = tmp_path / "in", time.time()
    source.mkdir()
    add_word(source / "future", "future", now + 30 * DAY)
    add_word(source / "new", "new")
    client = counting(source, tmp_path)
    shows(tmp_path, client, Counter(["future:1", "new:1"]))
    os.utime(source / "new", (now + 60 * DAY, now + 60 * DAY))
    add_word(source / "old", "old", now - 1000 * DAY)
    add_word(source / "later", "later")
    for number, name in enumerate(ODD_NAMES):
        add_word(source / name, str(number), now - number * 10 * DAY)
    expected = Counter([f"{word}:1" for word in ("future", "new", "old", "later", *map(str, range(len(ODD_NAMES))))])
    shows(tmp_path, client, expected)
    client.cancel().result(SECONDS)

    (source / "old").unlink()
    (source / "_hidden").write_text('{"word": "hidden"}\n')
    add_word(source / "last", "last", now - 20 * DAY)
    client = counting(source, tmp_path)
    shows(tmp_path, client, expected + Counter(["last:1"]))
    client.cancel().result(SECONDS)
    assert not spark.streams.active


def test_files_are_finished_in_time_while_no_input_arrives(spark: SparkSession, tmp_path: Path) -> None:
    """A streaming query has no batch without input: the part waits for its time, or for a checkpoint, nevertheless."""
    source = tmp_path / "in"
    source.mkdir()
    env = environment(durable(tmp_path / "checkpoints", **{"execution.checkpointing.interval": "3 s"}))
    words = env.read_json(str(source), "word STRING", watch=True).uid("words").map(lambda row: row[0], Types.STRING())
    policies = {
        "time": RollingPolicy.default_rolling_policy(rollover_interval=3000, inactivity_interval=2000),
        "checkpoint": RollingPolicy.on_checkpoint_rolling_policy(),
    }
    for name, policy in policies.items():
        builder = FileSink.for_row_format(str(tmp_path / name / "out"), Encoder.simple_string_encoder())
        words.sink_to(builder.with_rolling_policy(policy).build()).uid(name)
    client = env.execute_async("quiet")
    for word in "ab":  # the first epoch is a checkpoint, the second one is usually none
        add_word(source / word, word)
        shows(tmp_path / "checkpoint", client, Counter("a" if word == "a" else "ab"))
    shows(tmp_path / "time", client, Counter("ab"))
    client.cancel().result(SECONDS)
    assert not [path for name in policies for path in (tmp_path / name).rglob(".part*")]


def test_a_file_that_is_gone_when_the_driver_returns_is_named_or_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(4):
        add_file(source / f"{number}.json", f'{{"word": "w{number}"}}\n')
        os.utime(source / f"{number}.json", (1e9 + number, 1e9 + number))
    options = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), "execution.job-id": "job"}
    arguments = {"input": str(source), "output": str(tmp_path / "out"), "options": options}
    ended = run(
        "watched_job.py",
        json.dumps(arguments),
        faults=[fault("manifest.before", skip=2)],
        log=tmp_path / "killed.log",
    )
    assert ended.killed, ended.text[-3000:]
    assert seen(tmp_path) == Counter(["w0:1", "w1:1"])
    (source / "2.json").unlink()
    with pytest.raises(
        LostInputError, match=r"were being read when the job ended, and are gone: .*/2\.json\. Put"
    ) as e:
        watched_job.start(source, tmp_path / "out", options).get_job_execution_result().result(SECONDS)
    assert "files.missing: skip" in str(e.value)
    with caplog.at_level(logging.WARNING):
        client = watched_job.start(source, tmp_path / "out", {**options, "files.missing": "skip"})
        shows(tmp_path, client, Counter(["w0:1", "w1:1", "w3:1"]))
    assert "/2.json" in caplog.text
    assert client.get_metrics().total("numFilesSkipped") == 1
    client.cancel().result(SECONDS)
    client = watched_job.start(source, tmp_path / "out", options)  # it is done with
    add_file(source / "4.json", '{"word": "w4"}\n')
    shows(tmp_path, client, Counter(["w0:1", "w1:1", "w3:1", "w4:1"]))
    client.cancel().result(SECONDS)


def _slow(row: Row) -> str:
    time.sleep(0.005)
    return str(row[0])


def test_a_file_with_slow_records_is_read_over_several_epochs(tmp_path: Path) -> None:
    """Results come steadily, each record once, also over a start in the middle of the file."""
    source, words = tmp_path / "in", [f"w{number}" for number in range(1500)]
    source.mkdir()
    add_file(source / "many.json", "".join(json.dumps({"word": word}) + "\n" for word in words))

    def start() -> JobClient:
        options = {"execution.epoch.max-duration": "3 s", "pipeline.max-parallelism": "8"}
        env = environment(durable(tmp_path / "checkpoints", "job", **options))
        slow = env.read_json(str(source), "word STRING", watch=True).uid("words").map(_slow, Types.STRING())
        counts = slow.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count")
        sink = (
            FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )
        counts.sink_to(sink).uid("sink")
        return env.execute_async("job")

    client = start()
    eventually(lambda: seen(tmp_path).total() > 0, shown=lambda: seen(tmp_path))
    client.cancel().result(SECONDS)
    assert 0 < seen(tmp_path).total() < len(words)
    client = start()
    shows(tmp_path, client, Counter(f"{word}:1" for word in words))
    assert len(client.epochs) > 2  # type: ignore[attr-defined]
    add_word(source / "last", "last")
    shows(tmp_path, client, Counter(f"{word}:1" for word in [*words, "last"]))
    client.cancel().result(SECONDS)


class _Numbered(MapFunction):
    """Each word with the subtask that has read it; slow at first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Row) -> str:
        if int(value[0]) < 1000:
            time.sleep(0.005)
        return f"{value[0]} {self._subtask}"


def test_all_tasks_share_what_an_epoch_reads_of_a_file(tmp_path: Path) -> None:
    """A file that begins slowly is read in parts, by as many tasks as the whole file would be."""
    source, words = tmp_path / "in", [f"{number:04}" for number in range(3000)]
    source.mkdir()
    add_file(source / "many.json", "".join(json.dumps({"word": word, "more": 3000 * "x"}) + "\n" for word in words))
    options = {"execution.epoch.max-duration": "2 s", "execution.epoch.max-records": "1500"}
    env = environment(durable(tmp_path / "checkpoints", "job", **options))
    read = env.read_json(str(source), "word STRING", watch=True).uid("words").map(_Numbered(), Types.STRING())
    read.sink_to(
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    ).uid("sink")
    client = env.execute_async("job")
    eventually(lambda: seen(tmp_path).total() >= len(words), shown=lambda: seen(tmp_path).total())
    client.cancel().result(SECONDS)
    found = [line.split() for line in seen(tmp_path).elements()]
    assert sorted(word for word, _ in found) == words
    assert {subtask for _, subtask in found} == {"0", "1"}
    # All but the first epochs are shared, so that the smaller share is not much smaller.
    assert min(Counter(subtask for _, subtask in found).values()) > len(words) / 3
    assert len(client.epochs) > 2  # type: ignore[attr-defined]


#: Where a driver is killed on Spark.
POINTS = [
    "files.begun",
    "manifest.after",
    "manifest.before",
    "offsets.logged",
    "acks.collected",
    "sink.commit.after",
    "epoch.done",
    "lineage.after",
]


@WHEN_THOROUGH  # otherwise before its manifest, by the test of a missing file; test_files_read kills one at all points
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_file_is_read_once_wherever_the_driver_is_killed(tmp_path: Path) -> None:
    """A driver is killed once at each point of its epochs, and started again; then from a savepoint, elsewhere."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(FILES_PER_KILL * len(POINTS)):
        add_file(source / f"{number}.json", f'{{"word": "every"}}\n{{"word": "w{number}"}}\n')
    options = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), "execution.job-id": "job"}
    arguments = {"input": str(source), "output": str(tmp_path / "out"), "options": options}
    for number, point in enumerate(POINTS):
        log = tmp_path / f"{number}.log"
        skip = 0 if point == "lineage.after" else 1  # a driver opens one lineage, and runs several epochs
        ended = run("watched_job.py", json.dumps(arguments), faults=[fault(point, skip=skip)], log=log)
        assert ended.killed, ended.text[-3000:]
    client = watched_job.start(source, tmp_path / "out", options)
    files = FILES_PER_KILL * len(POINTS)
    expected = Counter([f"every:{n + 1}" for n in range(files)] + [f"w{n}:1" for n in range(files)])
    shows(tmp_path, client, expected)
    saved = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)
    shutil.rmtree(tmp_path / "checkpoints")
    shutil.move(saved, tmp_path / "moved")
    add_file(source / "last.json", '{"word": "last"}\n')
    elsewhere = {
        "execution.checkpointing.dir": str(tmp_path / "elsewhere"),
        "execution.state-recovery.path": str(tmp_path / "moved"),
        "parallelism.default": "3",
    }
    client = watched_job.start(source, tmp_path / "out", elsewhere)
    shows(tmp_path, client, expected + Counter(["last:1"]))
    client.cancel().result(SECONDS)


@pytest.fixture
def old_job(tmp_path: Path) -> Path:
    """The directory of a job whose positions are in the log of Spark's file source, with its files beside it."""
    (tmp_path / "in").mkdir()
    for name, word in FILES.items():
        add_word(tmp_path / "in" / name, word)
    job = tmp_path / "checkpoints" / "job"
    shutil.copytree(FIXTURE, job)
    for entry in job.glob("spark/*/sources/0/*"):
        entry.write_text(entry.read_text().replace(PLACEHOLDER, str(tmp_path / "in")))
    return job


def resumed(folder: Path, **options: str) -> JobClient:
    # The id of a job is in its manifests.
    (folder / "checkpoints" / "job").rename(folder / "checkpoints" / "watched")
    return counting(folder / "in", folder, "watched", **options)


def test_files_in_the_log_of_sparks_source_count_as_read(old_job: Path, tmp_path: Path) -> None:
    """And one that it had begun is read."""
    add_word(tmp_path / "in" / "again.json", "w0")
    client = resumed(tmp_path)
    shows(tmp_path, client, Counter([f"{FILES[BEGUN]}:1", "w0:2"]))
    client.cancel().result(SECONDS)
    add_word(tmp_path / "in" / "later.json", "w1")
    client = counting(tmp_path / "in", tmp_path, "watched")
    shows(tmp_path, client, Counter([f"{FILES[BEGUN]}:1", "w0:2", "w1:2"]))
    # The log of Spark's is not needed any more.
    shutil.rmtree(tmp_path / "checkpoints" / "watched" / "spark")
    saved = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)
    add_word(tmp_path / "in" / "last.json", "w3")
    client = counting(tmp_path / "in", tmp_path, "other", **{"execution.state-recovery.path": saved})
    shows(tmp_path, client, Counter([f"{FILES[BEGUN]}:1", "w0:2", "w1:2", "w3:2"]))
    client.cancel().result(SECONDS)


def test_another_job_starts_from_a_checkpoint_of_the_old_kind(old_job: Path, tmp_path: Path) -> None:
    moved = old_job.rename(tmp_path / "moved")
    client = counting(tmp_path / "in", tmp_path, "other", **{"execution.state-recovery.path": str(moved)})
    shows(tmp_path, client, Counter([f"{FILES[BEGUN]}:1"]))
    client.cancel().result(SECONDS)


def test_a_file_that_sparks_source_had_started_and_is_gone_is_named(old_job: Path, tmp_path: Path) -> None:
    (tmp_path / "in" / BEGUN).unlink()
    with pytest.raises(LostInputError, match=r"c#d\.json"):
        resumed(tmp_path).get_job_execution_result().result(SECONDS)


def test_a_log_of_sparks_source_of_which_a_part_is_missing_is_refused(old_job: Path, tmp_path: Path) -> None:
    (entry,) = old_job.glob("spark/*/sources/0/2.compact")
    entry.unlink()
    with pytest.raises(CheckpointError, match=r"entry 0 of .*sources/0, the log of files that were read, is missing"):
        resumed(tmp_path).get_job_execution_result().result(SECONDS)


def put(server: Server, key: str, text: str) -> None:
    store = ObjectStore(f"s3://{BUCKET}", server.options, purpose="test", failure=CheckpointError)
    store.call("write", key, lambda client, api: api.put(client, key, text.encode()))


@pytest.mark.timeout(200)
def test_objects_of_a_store_are_watched(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prefix = f"in-{uuid.uuid4()}"
    options = {f"s3.{key}": value for key, value in server.options.items()}
    names = ["1.json", "12:30.json", "a b%20#?.json", "a[b]*.json", "_hidden.json", ".hidden/x.json"]
    for name in names:
        put(server, f"{prefix}/{urllib.parse.unquote(name)}", json.dumps({"word": name}) + "\n")
    expected = Counter([f"{name}:1" for name in names[:4]])
    client = counting(f"s3://{BUCKET}/{prefix}", tmp_path, **options)
    shows(tmp_path, client, expected)
    put(server, f"{prefix}/2.json", '{"word": "second"}\n')
    put(server, f"{prefix}/1.json", '{"word": "changed"}\n')
    expected += Counter(["second:1"])
    shows(tmp_path, client, expected)
    client.cancel().result(SECONDS)
    put(server, f"{prefix}/3.json", '{"word": "third"}\n')
    client = counting(f"s3://{BUCKET}/{prefix}", tmp_path, **options)
    expected += Counter(["third:1"])
    shows(tmp_path, client, expected)
    put(server, f"{prefix}/4.json", '{"word": 7, "word": [')
    with pytest.raises(TidemillError, match=f"s3://{BUCKET}/{prefix}/4.json"):
        client.get_job_execution_result().result(SECONDS)


def test_columns_that_directories_name_are_not_in_the_files(tmp_path: Path) -> None:
    """Columns of CSV go by their order."""
    (tmp_path / "in" / "day=3").mkdir(parents=True)
    add_file(tmp_path / "in" / "day=3" / "1.csv", "a,1\n")
    rows = environment().read_csv(str(tmp_path / "in"), "DAY LONG, name STRING, amount LONG", watch=True)
    with rows.execute_and_collect() as results:
        first = next(results)
        add_file(tmp_path / "in" / "2.csv", "7,b,2\n")
        second = next(results)
    assert (first, second) == (Row(DAY=3, name="a", amount=1), Row(DAY=7, name="b", amount=2))


def test_directories_name_columns(tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "country=d e%2Ff" / "day=3").mkdir(parents=True)
    (source / "other").mkdir()
    add_word(source / "country=d e%2Ff" / "day=3" / "1:2.json", "inside")
    add_word(source / "other" / "3.json", "not looked at")
    env = environment()
    rows = env.read_json(str(source), "word STRING, country STRING", watch=True)
    with rows.execute_and_collect() as results:
        first = next(results)
        add_word(source / "4.json", "root")
        second = next(results)
    assert first == Row(word="inside", country="d e/f", day=3)
    assert second == Row(word="root", country=None, day=None)


def test_options_of_sparks_file_source(tmp_path: Path) -> None:
    source, archive = tmp_path / "in", tmp_path / "archive"
    for folder in ("a", "b"):
        (source / folder).mkdir(parents=True)
        add_word(source / folder / "1.json", folder, 1e9 + ord(folder))
    add_word(source / "a" / "2.tmp", "unfinished")
    options: dict[str, Any] = {
        "recursiveFileLookup": "true",
        "fileNameOnly": "true",
        "latestFirst": "true",
        "pathGlobFilter": "*.{json,txt}",
        "cleanSource": "archive",
        "sourceArchiveDir": str(archive),
    }
    rows = environment().read_json(str(source), "word STRING", options, watch=True)
    with rows.execute_and_collect() as results:
        assert next(results) == Row(word="b")
        eventually(lambda: not (source / "b" / "1.json").exists())
    assert (archive / (source / "b" / "1.json").relative_to("/")).exists()
    assert (source / "a" / "1.json").exists()
    assert (source / "a" / "2.tmp").exists()
