"""What is taken over of Spark's logs: what a manifest records, or nothing starts; the rest only if it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidemill.checkpoint.names import lineage_id, spark_location
from tidemill.checkpoint.spark_logs import LogEntry, needed, recorded_logs, with_logs, without_logs
from tidemill.errors import CorruptFileError, JobExecutionError
from tidemill.runtime.start.spark_positions import SourceNumbers
from tidemill.spark.locations.build_location import Origin, build_location
from tidemill.spark.locations.job_locations import SparkLocations
from tidemill.spark.locations.spark_checksums import checksum_of, checksum_path, is_intact
from tidemill.spark.session.failures import _kind

OLD, NEW = lineage_id(3, "abc"), lineage_id(8, "abc")
FILES: SourceNumbers = {"files": [[0, 0, "FileSource"]]}
TOPIC: SourceNumbers = {"topic": [[0, 0, "kafka"]]}
POSITIONS: dict[str, Any] = {"batch_id": 4, "offsets": 'v1\n{}\n{"logOffset":4}', "lineage": OLD, "sources": FILES}
CUT = 'v1\n{}\n{"logOffset":5}'


def entry(path: Path, text: str = "v1") -> None:
    """An entry of a log, as Spark writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    checksum_path(path).write_bytes(checksum_of(text.encode()))


class Fixture:
    """A location that has committed batch 4, and begun the next one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.old, self.new = directory / spark_location(OLD), directory / spark_location(NEW)
        for number in (1, 3, 4):
            entry(self.old / "sources" / "0" / str(number), f"entry {number}")
        entry(self.old / "sources" / "0" / "2.compact", "entries 0 to 2")
        entry(self.old / "commits" / "4", "v1\n{}")
        entry(self.old / "metadata", '{"id": "query"}')
        self.recorded = {one.name: one for one in SparkLocations(directory).keep(OLD, begun=True)}
        entry(self.old / "sources" / "0" / "5", "entry 5")
        entry(self.old / "offsets" / "5", CUT)

    def build(self, numbers: SourceNumbers = FILES, *, positions: Any = POSITIONS, **origin: Any) -> dict[str, str]:
        """What there is in the new location, without checksums."""
        known = {"recorded": self.recorded, **origin}
        build_location(Origin(self.old, **known), self.new, positions, numbers)
        found = [path for path in sorted(self.new.rglob("*")) if path.is_file() and not path.name.startswith(".")]
        return {str(path.relative_to(self.new)): path.read_text() for path in found}


@pytest.fixture
def made(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


RECORDED = {
    "commits/4": "v1\n{}",
    "metadata": '{"id": "query"}',
    "offsets/3": POSITIONS["offsets"],
    "offsets/4": POSITIONS["offsets"],
    "sources/0/2.compact": "entries 0 to 2",
    "sources/0/3": "entry 3",
    "sources/0/4": "entry 4",
}
BEGUN = {"offsets/5": CUT, "sources/0/5": "entry 5"}


# --- records


def test_spark_reads_the_newest_merged_entry_and_what_follows() -> None:
    assert needed(["0", "1", "10", "9", "notes"]) == ["0", "1", "9", "10"]
    assert needed(["2.compact", "5.compact", "4", "10", "7"]) == ["5.compact", "7", "10"]
    assert needed([]) == []


def test_a_manifest_records_what_a_restore_reads(made: Fixture) -> None:
    assert [*made.recorded] == ["0/2.compact", "0/3", "0/4"]
    assert made.recorded["0/3"] == LogEntry.of("0/3", b"entry 3")
    spark = json.loads(json.dumps(with_logs(POSITIONS, OLD, made.recorded.values())))
    assert recorded_logs(spark) == made.recorded
    assert recorded_logs(POSITIONS) is None
    assert without_logs(spark) == POSITIONS
    # A version without records has carried it along into a lineage of its own.
    assert recorded_logs({**spark, "lineage": NEW}) is None
    with pytest.raises(CorruptFileError, match="is malformed"):
        recorded_logs({**spark, "logs": {"lineage": OLD, "entries": [["0/3", "x", "y"]]}})


def test_an_epoch_reads_and_syncs_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        "tidemill.spark.locations.job_locations.sync_path",
        lambda path: synced.append(str(Path(path).relative_to(tmp_path))),
    )
    place, locations = tmp_path / spark_location(OLD), SparkLocations(tmp_path)
    (place / "sources" / "0").mkdir(parents=True)
    (place / "sources" / "0" / ".0.tmp").write_text("Spark is about to write it")
    assert locations.keep(OLD, begun=False) == []
    assert synced == []
    (place / "sources" / "0" / ".0.tmp").unlink()
    entry(place / "sources" / "0" / "0", "zero")
    entry(place / "metadata", "{}")
    assert [one.name for one in locations.keep(OLD, begun=False)] == ["0/0"]
    here = str(spark_location(OLD))
    # Files before the folders with their names; what the first batch begins with, also with Spark's checksums.
    assert {f"{here}/sources/0/0", f"{here}/sources/0/.0.crc", f"{here}/metadata"} < {*synced}
    assert {f"{here}/sources/0", f"{here}/sources", here, "spark", "."} < {*synced}
    assert synced.index(f"{here}/sources/0/0") < synced.index(f"{here}/sources/0")
    synced.clear()
    for begun in (False, True):
        assert [one.name for one in locations.keep(OLD, begun=begun)] == ["0/0"]
        assert synced == [], "a topic logs once"
    entry(place / "sources" / "0" / "1", "one")
    (place / "sources" / "0" / "0").write_text("never read again")
    assert [*locations.keep(OLD, begun=True)] == [LogEntry.of("0/0", b"zero"), LogEntry.of("0/1", b"one")]
    assert synced[0] == f"{here}/sources/0/1"
    assert f"{here}/sources/0" in synced
    assert SparkLocations(tmp_path, durable=False).keep(OLD, begun=True)
    assert len(synced) == len({*synced}) == 2, "the file, and the folder with its name"


def test_what_has_no_checksum_is_made_durable_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []

    def sync(path: Path) -> None:
        path.stat()
        synced.append(path)

    monkeypatch.setattr("tidemill.spark.locations.job_locations.sync_path", sync)
    place = tmp_path / spark_location(OLD)
    entry(place / "sources" / "0" / "0")
    checksum_path(place / "sources" / "0" / "0").unlink()
    assert SparkLocations(tmp_path).keep(OLD, begun=False)
    assert {place / "sources" / "0", place / "sources", place, tmp_path / "spark", tmp_path} < {*synced}


# --- what is recorded


def test_all_that_is_recorded_and_what_was_started_is_taken_over(made: Fixture) -> None:
    assert made.build() == {**RECORDED, **BEGUN}
    assert is_intact(made.new / "offsets" / "5", CUT.encode()), "so that the next driver can tell as well"
    # Spark would check against an old checksum what the manifest has said.
    assert not checksum_path(made.new / "offsets" / "4").exists()


@pytest.mark.parametrize("name", ["2.compact", "3", "4"])
@pytest.mark.parametrize("how", ["flipped", "torn", "empty", "longer", "missing"])
def test_what_is_recorded_must_be_there_as_it_was(made: Fixture, name: str, how: str) -> None:
    path = made.old / "sources" / "0" / name
    data = path.read_bytes()
    changed = {
        "flipped": bytes([data[0] ^ 4]) + data[1:],
        "torn": data[:3],
        "empty": b"",
        "longer": data + b"\n",
    }.get(how)
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
        checksum_path(path).write_bytes(checksum_of(changed))  # Spark would not notice
    problem = "is missing" if how == "missing" else "is corrupt"
    with pytest.raises(CorruptFileError, match=rf"spark/{OLD}/sources/0/{name} {problem}.*resume-mode: none"):
        made.build()
    assert not (made.new / "metadata").exists(), "it does not count"


# --- what is not


@pytest.mark.parametrize("name", ["sources/0/5", "offsets/5"])
@pytest.mark.parametrize("how", ["flipped", "empty", "checksum torn", "no checksum", "missing"])
def test_a_started_batch_gets_new_boundaries_if_a_part_of_it_is_incomplete(made: Fixture, name: str, how: str) -> None:
    path = made.old / name
    match how:
        case "flipped":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        case "empty":
            path.write_bytes(b"")
        case "checksum torn":
            checksum_path(path).write_bytes(b"crc")
        case "no checksum":
            checksum_path(path).unlink()
        case "missing":
            path.unlink()
    found = made.build()
    assert "offsets/5" not in found
    assert {key: value for key, value in found.items() if key != "sources/0/5"} == RECORDED
    assert found.get("sources/0/5", "entry 5") == "entry 5"


def test_a_later_entry_is_left_behind_with_an_earlier_one(made: Fixture) -> None:
    entry(made.old / "sources" / "0" / "6", "entry 6")
    (made.old / "sources" / "0" / "5").write_bytes(b"")
    assert made.build() == RECORDED


def test_a_torn_commit_or_id_is_done_without(made: Fixture) -> None:
    for name in ("commits/4", "metadata"):
        (made.old / name).write_bytes(b"")
    found = made.build()
    assert "commits/4" not in found, "the batch is replayed, and skipped"
    assert json.loads(found["metadata"])["id"]


def test_a_sealed_location_needs_no_checksums(made: Fixture) -> None:
    for path in made.old.rglob(".*.crc"):
        path.unlink()
    assert made.build(sealed=True) == {**RECORDED, **BEGUN}


def test_a_manifest_without_a_record_is_taken_at_its_word(made: Fixture) -> None:
    checksum_path(made.old / "sources" / "0" / "3").unlink()
    assert made.build(recorded=None) == {**RECORDED, **BEGUN, "sources/0/1": "entry 1"}
    (made.old / "sources" / "0" / "4").write_bytes(b"")
    with pytest.raises(CorruptFileError, match="sources/0/4 is corrupt: it does not match its checksum file"):
        made.build(recorded=None)


# --- before the first batch is committed


def test_where_a_topic_began_must_be_known(tmp_path: Path) -> None:
    old, new = tmp_path / spark_location(OLD), tmp_path / spark_location(NEW)
    entry(old / "sources" / "0" / "0", 'v1\n{"topic":{"0":17}}')
    build_location(Origin(old), new, None, TOPIC)
    assert (new / "sources" / "0" / "0").read_text() == 'v1\n{"topic":{"0":17}}'
    (old / "sources" / "0" / "0").write_text('v1\n{"topic":{"0":19}}')
    with pytest.raises(CorruptFileError, match=f"spark/{OLD}/sources/0/0 is corrupt.*start without state"):
        build_location(Origin(old), new, None, TOPIC)


def test_files_that_were_seen_and_not_read_are_looked_for_again(tmp_path: Path) -> None:
    old, new = tmp_path / spark_location(OLD), tmp_path / spark_location(NEW)
    entry(old / "sources" / "0" / "0", "torn")
    entry(old / "offsets" / "0", 'v1\n{}\n{"logOffset":0}')
    (old / "sources" / "0" / "0").write_bytes(b"")
    build_location(Origin(old), new, None, FILES)
    assert [path.name for path in new.rglob("*") if path.is_file()] == ["metadata"]


# --- errors of tasks


def test_a_damaged_file_that_a_task_met_is_not_tried_again() -> None:
    text = 'Traceback (most recent call last):\n  File "x", line 1\ntidemill.errors.CorruptFileError: it is damaged'
    assert _kind(text) is CorruptFileError
    assert _kind("Traceback (most recent call last):\nValueError: tidemill") is JobExecutionError
