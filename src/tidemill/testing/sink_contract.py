"""The contract of sinks under failures, as test cases for custom sinks.

A case runs a job with the sink on the engine's own tasks and commit path. It kills the job at one point, simulates
drivers that return late or attempts that are lost, and checks what a reader of the sink's system can see::

    from tidemill.testing.sink_contract import SINK_CASES, SinkCase, check_sink

    @pytest.mark.parametrize("case", SINK_CASES, ids=str)
    def test_my_sink(case: SinkCase, tmp_path: Path) -> None:
        check_sink(case, lambda: MySink(tmp_path), lambda: read_all(tmp_path))

Use ``WRITER_CASES`` for sinks without a committer. The ``guarantee`` of the sink defines what is checked:

- ``exactly-once``: after each epoch, exactly the records of committed epochs are visible, and never any other;
- ``effectively-once``: the same, but records may be visible before their epoch is committed;
- ``at-least-once``: all records of committed epochs are visible, possibly more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tidemill.connectors.sinks import Sink
from tidemill.faults import traced
from tidemill.testing.sink_run import SinkRun

__all__ = ["SINK_CASES", "WRITER_CASES", "SinkCase", "check_sink"]

_IN_TASKS: Final = ("task.batch", "sink.precommit.before", "sink.precommit.after", "delta.after", "ack.before")
_ON_DRIVER: Final = ("acks.collected", "manifest.before", "manifest.after", "epoch.done")
_IN_COMMITS: Final = ("sink.commit.before", "sink.commit.after")


@dataclass(frozen=True)
class SinkCase:
    """One scenario that a sink must handle. ``rescales`` marks scenarios that change the parallelism."""

    name: str
    run: Callable[[SinkRun], None]
    rescales: bool = False

    def __str__(self) -> str:
        return self.name


def check_sink(
    case: SinkCase,
    sink: Callable[[], Sink],
    visible: Callable[[], Iterable[Any]],
    *,
    left: Callable[[], Iterable[Any]] = tuple,
    record: Callable[[int], Any] = str,
    records: int = 4,
) -> None:
    """Run a case; raises :class:`AssertionError` if the sink does not keep its guarantee.

    ``sink`` creates the sink as a program does when it starts. ``visible`` returns all records that a reader can see
    now, in any order, as they were written. ``left`` returns everything else that the sink has in its system, which
    must be nothing when the job has ended. ``record`` creates a record from a number. ``records`` is the number of
    records of an epoch, which alternate between two subtasks. With large records (100 KB and more), a write-ahead log
    writes files and commits on workers.
    """
    run = SinkRun(sink, visible, record, records)
    case.run(run)
    run.end()
    if remains := list(left()):
        raise AssertionError(f"the job has ended, but its sink has left {remains}")


def _epochs(run: SinkRun) -> None:
    for records in (4, 1, 7):
        run.epoch(records)
    run.restart()
    run.epoch()


def _empty_epochs(run: SinkRun) -> None:
    run.epoch(0)
    run.epoch()
    run.crash("acks.collected", records=0)
    run.epoch(0)
    run.crash("manifest.after", records=0)
    run.epoch()


def _one_subtask_is_silent(run: SinkRun) -> None:
    run.epoch()
    run.epoch(1)
    run.crash("acks.collected", records=1)
    run.restart()
    run.epoch()


def _crash(point: str, run: SinkRun) -> None:
    run.epoch()
    run.crash(point)
    run.epoch()
    run.crash(point, skip=1 if point in _IN_TASKS else 0)
    run.epoch()


def _rescale(run: SinkRun) -> None:
    run.epoch()
    run.restart(3)
    run.epoch(7)
    run.crash("acks.collected", parallelism=1)
    run.crash("manifest.after", parallelism=2)
    run.epoch()


def _elsewhere(run: SinkRun) -> None:
    run.epoch()
    run.epoch()
    run.begin_elsewhere()
    run.epoch()
    run.crash("acks.collected")
    run.crash("manifest.after")
    run.epoch()


def _hidden(run: SinkRun) -> None:
    def look(point: str) -> None:
        if point in ("sink.precommit.after", "ack.before", "acks.collected", "manifest.before"):
            run.check(f"at {point}")

    with traced(look):
        run.epoch()
        run.epoch()


def _rescale_with_commits(run: SinkRun) -> None:
    run.epoch()
    run.die_in_commit(1, parallelism=3)
    run.epoch(7)
    run.die_in_commit(1, parallelism=1)
    run.epoch()
    run.restart(2)
    run.epoch()


def _die_in_commit(parts: int, run: SinkRun) -> None:
    run.epoch()
    run.die_in_commit(parts)
    run.epoch()
    run.die_in_commit(parts)


def _die_committing_again(run: SinkRun) -> None:
    run.epoch()
    run.die_committing_again(1)
    run.restart()
    run.epoch()


def _commit_again(run: SinkRun) -> None:
    run.epoch()
    for again in (False, True):
        run.commit_late(run.last_committer(), again=again)
    run.epoch()
    run.restart()
    run.restart()
    run.epoch()


def _late_commit(parts: int, run: SinkRun) -> None:
    run.epoch()
    zombie = run.die_in_commit(parts)
    run.commit_late(zombie)
    run.epoch()
    run.commit_late(zombie)
    run.epoch()
    run.restart()
    run.epoch()
    run.commit_late(zombie)


def _late_discard(run: SinkRun) -> None:
    run.epoch()
    old = run.job.head.lineage
    zombie = run.die_in_commit(2)
    run.epoch()
    run.prepare_only()
    run.discard_late(zombie, old)
    run.take_over()
    run.epoch()


def _lost_attempts(run: SinkRun) -> None:
    run.leave_attempt_behind()
    run.epoch()
    run.leave_attempt_behind()
    run.restart()
    run.leave_attempt_behind()
    run.crash("manifest.after")
    run.epoch()
    run.leave_attempt_behind()


#: For sinks that write records immediately and have no committer.
WRITER_CASES: Final = (
    SinkCase("epochs come one after the other", _epochs),
    SinkCase("epochs without records", _empty_epochs),
    SinkCase("a subtask without records", _one_subtask_is_silent),
    *(SinkCase(f"killed at {point}", partial(_crash, point)) for point in (*_IN_TASKS, *_ON_DRIVER)),
    SinkCase("rescaled", _rescale, rescales=True),
    SinkCase("begun again with an empty directory", _elsewhere),
)

#: For sinks with a committer.
SINK_CASES: Final = (
    *WRITER_CASES,
    SinkCase("nothing is visible before its commit", _hidden),
    *(SinkCase(f"killed at {point}", partial(_crash, point)) for point in _IN_COMMITS),
    *(SinkCase(f"killed in a commit after {parts} subtasks", partial(_die_in_commit, parts)) for parts in (0, 1, 2)),
    SinkCase("killed in a commit, and again in the next", _die_committing_again),
    SinkCase("rescaled between commit and commit", _rescale_with_commits, rescales=True),
    SinkCase("committed again and again", _commit_again),
    *(SinkCase(f"committed late, {parts} subtasks before", partial(_late_commit, parts)) for parts in (0, 1, 2)),
    SinkCase("cleared up late", _late_discard),
    SinkCase("attempts that were lost", _lost_attempts),
)
