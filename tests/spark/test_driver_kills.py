"""The driver is killed with SIGKILL at each point of the protocol that it passes, and started again each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.processes import fault
from tests.spark.programs.keyed_job import EPOCHS, write_input
from tests.spark.recovery import Result, Run

#: A chain of starts: each dies at its point, after as many passes of it as the number says. The first sink commit of a
#: start is that of what its predecessor published and may not have committed.
BOUNDED = [
    ("lineage.before", 0),
    ("lineage.after", 0),
    ("offsets.logged", 1),
    ("acks.collected", 1),
    ("manifest.before", 1),
    ("manifest.after", 0),
    ("sink.commit.before", 0),
    ("sink.commit.before", 2),
    ("sink.commit.after", 1),
    ("epoch.done", 1),
    ("retention.delete", 0),
    ("snapshot.published", 0),
]
#: Under a streaming query what matters is the order of three logs: Spark's offsets, our manifest, Spark's commit.
STREAMING = [
    ("offsets.logged", 1),  # Spark has logged the batch's offsets, we have nothing
    ("manifest.before", 1),
    ("manifest.after", 0),  # our manifest, neither sinks nor Spark's commit
    ("sink.commit.after", 0),  # in recovery
    ("epoch.done", 1),  # all of ours, not Spark's commit: the batch is replayed and must be skipped
    ("lineage.after", 0),  # a lineage without any batch
]
FILES = 10


@pytest.mark.timeout(900)
def test_a_bounded_job_killed_at_every_point_of_its_driver_ends_as_if_nothing_had_happened(
    tmp_path: Path, expected: Result
) -> None:
    assert len(expected.files) > EPOCHS
    killed = Run(tmp_path / "killed")
    for point, skip in BOUNDED:
        ended = killed.start(fault(point, skip=skip))
        assert ended.killed, f"the driver did not come to {point}, it ended with {ended.code}: {ended.text[-3000:]}"
    result = killed.finish()
    assert result == expected


@pytest.mark.timeout(900)
def test_a_streaming_job_killed_between_the_three_logs_loses_and_repeats_nothing(tmp_path: Path) -> None:
    source = tmp_path / "input"
    write_input(source, FILES)
    expected = Run(tmp_path / "expected", source=source).finish()
    killed = Run(tmp_path / "killed", source=source)
    for point, skip in STREAMING:
        ended = killed.start(fault(point, skip=skip))
        assert ended.killed, f"the driver did not come to {point}, it ended with {ended.code}: {ended.text[-3000:]}"
    result = killed.finish()
    assert result == expected
