"""What goes along with the state of an epoch: logs of Spark's sources, and input that was materialised for the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import encode_manifest
from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.checkpoint.names import input_name, lineage_id, spark_location
from tidemill.checkpoint.portable import PortableState, is_input, portable
from tidemill.checkpoint.savepoint import METADATA, encode_metadata, read_savepoint
from tidemill.checkpoint.spark_logs import LogEntry, recorded_logs, with_logs
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.errors import CheckpointError, CorruptFileError

FIRST, SECOND, THIRD = (lineage_id(slot, "abc") for slot in (1, 5, 9))
OWN = lineage_id(0, "beef")


def taken(storage: MemoryStorage, *, pending: bool = False, **fields: Any) -> PortableState:
    """The portable form of a manifest with these fields."""
    manifest = replace(Manifest("epoch", "job", Lineage(SECOND), Slot(8), Epoch(3)), **fields)
    return portable(storage, ManifestLog(storage, "job"), manifest, "beef", "the epoch", pending=pending)


def names(state: PortableState) -> list[str]:
    return [file.name for file in state.files]


def spark_log(storage: MemoryStorage, lineage: str, *files: str) -> None:
    for file in files:
        storage.write(f"{spark_location(lineage)}/{file}", f"{file} of {lineage}".encode())


def test_the_logs_of_sparks_sources_go_along_and_nothing_else_of_its_location() -> None:
    storage = MemoryStorage()
    spark_log(storage, FIRST, "sources/0/0", "sources/0/1", "sources/0/.1.crc", "sources/1/0", "offsets/4", "metadata")
    spark_log(storage, SECOND, "sources/0/0")
    positions = {"batch_id": 4, "offsets": "o", "lineage": FIRST, "sources": {"a": [[0, 0, "rate"]]}}
    state = taken(storage, spark=positions)
    assert names(state) == [f"spark/{OWN}/sources/{name}" for name in ("0/0", "0/1", "1/0")]
    assert state.manifest.spark == {**positions, "lineage": OWN}
    target = MemoryStorage()
    copied = state.copy_into(target)
    assert target.read(f"spark/{OWN}/sources/0/1") == f"sources/0/1 of {FIRST}".encode()
    assert [(file.length, len(file.sha256 or "")) for file in copied] == [(len(f"sources/0/1 of {FIRST}"), 64)] * 3
    # A job that has read nothing has nothing to resume from.
    assert names(taken(storage)) == []


def test_a_later_log_replaces_one_that_is_gone_and_an_earlier_one_never_does() -> None:
    storage = MemoryStorage()
    spark_log(storage, FIRST, "sources/0/0")
    spark_log(storage, THIRD, "sources/0/0")
    state = taken(storage, spark={"batch_id": 4, "offsets": "o", "lineage": SECOND})
    assert [file.source for file in state.files] == [f"spark/{THIRD}/sources/0/0"]
    late = lineage_id(12, "abc")
    assert names(taken(storage, spark={"batch_id": 4, "offsets": "o", "lineage": late})) == []


def test_a_later_log_is_found_by_the_uid_of_its_source_whatever_number_that_has_by_now() -> None:
    storage = MemoryStorage()
    spark_log(storage, SECOND, "sources/7/0")  # of a driver that was taken over, and still writes
    spark_log(storage, THIRD, "sources/0/5", "sources/1/9.compact", "sources/2/0")
    now = {"new": [[0, 0, "rate"]], "files": [[1, 1, "FileSource"]], "other": [[2, 2, "FileSource"]]}
    spark = {"batch_id": 7, "offsets": "o", "lineage": THIRD, "sources": now}
    manifest = Manifest("epoch", "job", Lineage(THIRD), Slot(1), Epoch(6), spark=spark)
    storage.write("manifests/00000000000000000001.tm", encode_manifest(manifest))
    then = {"files": [[0, 0, "FileSource"]], "gone": [[1, 1, "rate"]], "other": [[2, 2, "FileSource"]]}
    state = taken(storage, spark={"batch_id": 4, "offsets": "o", "lineage": FIRST, "sources": then})
    assert {file.name: file.source for file in state.files} == {
        f"spark/{OWN}/sources/0/9.compact": f"spark/{THIRD}/sources/1/9.compact",
        f"spark/{OWN}/sources/2/0": f"spark/{THIRD}/sources/2/0",
    }


def test_materialised_input_goes_along_as_long_as_some_of_it_is_to_be_read() -> None:
    storage = MemoryStorage()
    for name in ("one/part-1.parquet", "one/_SUCCESS", "one/.part-1.parquet.crc", "two/part-1.parquet"):
        storage.write(input_name("rows", name), name.encode())
    positions = {"rows": 3, "other": 5}
    assert names(taken(storage, sources=positions)) == []  # nobody has chosen yet
    storage.write(input_name("rows", "chosen"), b"one")
    state = taken(storage, sources=positions)
    # The marker comes last: without it the rows do not count.
    assert names(state) == [input_name("rows", "one/part-1.parquet"), input_name("rows", "chosen")]
    assert all(map(is_input, names(state)))
    assert names(taken(storage, sources=positions, finished=True)) == []


def test_results_go_along_only_where_they_cannot_have_been_committed() -> None:
    results = {"sink": {0: (b"file",)}}
    assert taken(MemoryStorage(), committables=results).manifest.committables == {}
    assert taken(MemoryStorage(), committables=results, pending=True).manifest.committables == results


def test_a_portable_manifest_can_be_stored_and_says_nothing_of_attempts_and_slots() -> None:
    manifest = taken(MemoryStorage(), attempts={"chain": ("a",)}, metrics={"n": 1.0}, checkpoints=(Slot(8),)).manifest
    assert encode_manifest(manifest)
    assert (manifest.attempts, manifest.metrics, manifest.checkpoints, manifest.lineage) == ({}, {}, (), OWN)


def test_copying_ends_when_it_is_stopped_or_a_file_is_gone() -> None:
    storage = MemoryStorage()
    spark_log(storage, SECOND, "sources/0/0", "sources/0/1")
    state = taken(storage, spark={"batch_id": 4, "offsets": "o", "lineage": SECOND})
    with pytest.raises(CheckpointError, match="copying the epoch was canceled"):
        state.copy_into(MemoryStorage(), stopped=lambda: True)
    storage.delete([f"spark/{SECOND}/sources/0/1"])
    with pytest.raises(CorruptFileError, match=r"sources/0/1 of the epoch is missing"):
        state.copy_into(MemoryStorage())


# --- what manifests record of Spark's logs

FILES = {"files": [[0, 0, "FileSource"]]}
OFFSETS = 'v1\n{}\n{"logOffset":4}'


def recording(storage: MemoryStorage, lineage: str, *names: str, batch: int = 4) -> dict[str, Any]:
    """Positions that rely on these entries."""
    entries = [LogEntry.of(name, storage.read(f"spark/{lineage}/sources/{name}")) for name in names]
    return with_logs({"batch_id": batch, "offsets": OFFSETS, "lineage": lineage, "sources": FILES}, lineage, entries)


def test_what_is_recorded_of_a_log_goes_along_and_is_checked() -> None:
    storage = MemoryStorage()
    spark_log(storage, FIRST, "sources/0/1", "sources/0/2.compact", "sources/0/3", "sources/0/4", "sources/0/5")
    positions = recording(storage, FIRST, "0/2.compact", "0/3", "0/4")
    state = taken(storage, spark=positions)
    # What was merged stays behind; what was logged since goes along.
    assert names(state) == [f"spark/{OWN}/sources/0/{name}" for name in ("2.compact", "3", "4", "5")]
    assert state.manifest.spark is not None
    assert recorded_logs(state.manifest.spark) == recorded_logs(positions)
    state.copy_into(MemoryStorage())
    storage.write(f"spark/{FIRST}/sources/0/3", b"damaged")
    with pytest.raises(CorruptFileError, match=f"spark/{FIRST}/sources/0/3 of the epoch is corrupt"):
        taken(storage, spark=positions).copy_into(MemoryStorage())
    storage.delete([f"spark/{FIRST}/sources/0/3"])
    with pytest.raises(CorruptFileError, match=f"spark/{FIRST}/sources/0/3 of the epoch is missing"):
        taken(storage, spark=positions).copy_into(MemoryStorage())


def test_the_record_of_the_head_counts_for_an_earlier_epoch_whose_entries_were_merged() -> None:
    storage = MemoryStorage()
    spark_log(storage, FIRST, "sources/0/0", "sources/0/1")
    earlier = recording(storage, FIRST, "0/0", "0/1", batch=1)
    storage.delete([f"spark/{FIRST}/sources/0/0", f"spark/{FIRST}/sources/0/1"])
    spark_log(storage, FIRST, "sources/0/2.compact", "sources/0/3")
    now = recording(storage, FIRST, "0/2.compact", "0/3", batch=3)
    manifest = Manifest("epoch", "job", Lineage(FIRST), Slot(1), Epoch(6), spark=now)
    storage.write("manifests/00000000000000000001.tm", encode_manifest(manifest))
    assert names(taken(storage, spark=earlier)) == [f"spark/{OWN}/sources/0/{name}" for name in ("2.compact", "3")]
    # Also if the job has continued in another lineage, and the location of the earlier one is still there.
    spark_log(storage, SECOND, "sources/0/2.compact", "sources/0/3", "sources/0/4")
    later = recording(storage, SECOND, "0/2.compact", "0/3", "0/4")
    manifest = Manifest("epoch", "job", Lineage(SECOND), Slot(1), Epoch(7), spark=later)
    storage.write("manifests/00000000000000000001.tm", encode_manifest(manifest))
    state = taken(storage, spark=earlier)
    assert {file.source.split("/")[1] for file in state.files} == {SECOND}
    assert all(file.sha256 for file in state.files)


def test_positions_of_files_without_a_log_are_no_state_to_start_from() -> None:
    storage = MemoryStorage()
    positions = {"batch_id": 4, "offsets": OFFSETS, "lineage": FIRST, "sources": FILES}
    with pytest.raises(CorruptFileError, match=r"sources/0 is missing: it records .* source with uid 'files'"):
        taken(storage, spark=positions)
    unread = {**positions, "offsets": "v1\n{}\n-"}
    assert names(taken(storage, spark=unread)) == []
    spark_log(storage, FIRST, "sources/0/0")
    state = taken(storage, spark=positions)
    for files, complete in ((state.files, True), ((), False)):
        saved = MemoryStorage()
        copied = replace(state, files=files).copy_into(saved)
        saved.create(METADATA, encode_metadata(state.manifest, copied, 0))
        if complete:
            assert read_savepoint(saved, "saved").manifest == state.manifest
        else:
            with pytest.raises(CorruptFileError, match=f"saved/spark/{OWN}/sources/0 is missing"):
                read_savepoint(saved, "saved")
