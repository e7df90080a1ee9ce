"""Names: built in one place, parsed back, never outside the directory."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tidemill.checkpoint import names
from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.names import DeltaName, SinkLogName, SnapshotName
from tidemill.errors import CheckpointError

LINEAGE = names.lineage_id(7, "00ff00ff00ff00ff")
BAD_IDS = ["", "a/b", "..", "a b", "x" * 65, "a\n", "é"]


def test_names_look_like_this() -> None:
    assert names.manifest_name(12) == "manifests/00000000000000000012.tm"
    assert LINEAGE == "000000000007-00ff00ff00ff00ff"
    delta = names.delta_name(LINEAGE, Epoch(3), "count/by word", 2, "a" * 32)
    assert re.fullmatch(rf"state/{LINEAGE}/000000000003-[0-9a-f]{{16}}-2-{'a' * 32}\.tms", delta)
    snapshot = names.snapshot_id(LINEAGE, 9, "beef")
    assert names.snapshot_index_name(snapshot) == f"snapshots/{LINEAGE}-000000000009-beef.tm"
    assert names.snapshot_file_name(snapshot, 4) == f"snapshots/{LINEAGE}-000000000009-beef/000004.tms"
    assert names.input_name("src", "part-0.arrow") == f"input/{names.uid_hash('src')}/part-0.arrow"
    log = names.sink_log_name(LINEAGE, Epoch(5), "out", 2, "a" * 32, 0)
    assert log == f"sinks/{names.uid_hash('out')}/{LINEAGE}/000000000005-2-{'a' * 32}-0.log"
    assert names.spark_location(LINEAGE) == f"spark/{LINEAGE}"


def test_names_are_parsed_back() -> None:
    assert names.parse_manifest(names.manifest_name(12)) == 12
    delta = names.delta_name(LINEAGE, Epoch(3), "chain", 2, "4f-1_x")
    assert names.parse_delta(delta) == DeltaName(LINEAGE, 3, names.uid_hash("chain"), 2, "4f-1_x")  # type: ignore[arg-type]
    snapshot = names.snapshot_id(LINEAGE, 9, "beef")
    for name in (names.snapshot_index_name(snapshot), names.snapshot_file_name(snapshot, 4)):
        assert names.parse_snapshot(name) == snapshot
        assert names.parse_manifest(name) is None
        assert names.parse_delta(name) is None
    assert names.parse_snapshot_id(snapshot) == SnapshotName(LINEAGE, 9, "beef")  # type: ignore[arg-type]
    assert names.lineage_slot(LINEAGE) == 7
    assert names.lineage_slot(names.lineage_id(0, "saved")) == 0
    assert names.lineage_slot("mine") is None
    for name in ("manifests/1.tm", "manifests/" + "0" * 20 + ".tm.bak", "state/x", "snapshots/x/y.tms", "other"):
        assert [parse(name) for parse in (names.parse_manifest, names.parse_delta, names.parse_snapshot)] == [None] * 3
    assert names.parse_snapshot_id("restored") is None
    log = names.sink_log_name(LINEAGE, Epoch(5), "out", 2, "4f-1_x", 11)
    assert names.parse_sink_log(log) == SinkLogName(names.uid_hash("out"), LINEAGE, 5)  # type: ignore[arg-type]
    assert names.parse_sink_log(delta) is None


@pytest.mark.parametrize("bad", BAD_IDS)
def test_ids_cannot_leave_their_place(bad: str) -> None:
    builders: list[Callable[[], str]] = [
        lambda: names.delta_name(bad, Epoch(1), "c", 0, "a"),
        lambda: names.delta_name("l", Epoch(1), "c", 0, bad),
        lambda: names.snapshot_id(bad, 1, "a"),
        lambda: names.snapshot_id("l", 1, bad),
        lambda: names.sink_log_name(bad, Epoch(1), "s", 0, "a", 0),
        lambda: names.sink_log_name("l", Epoch(1), "s", 0, bad, 0),
        lambda: names.spark_location(bad),
    ]
    for build in builders:
        with pytest.raises(CheckpointError, match="is not a valid"):
            build()


def test_other_parts_cannot_either() -> None:
    with pytest.raises(CheckpointError, match="is not a name inside"):
        names.input_name("src", "../../x")
    with pytest.raises(CheckpointError, match="slots count from 1"):
        names.manifest_name(0)
    for bad in ("../x", ""):
        with pytest.raises(CheckpointError, match="is not a valid snapshot id"):
            names.snapshot_index_name(bad)
