"""The contract of sources in plain Python, as test cases for custom :class:`SplitSource` classes.

::

    from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source

    @pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
    def test_my_source(case: SourceCase) -> None:
        check_source(case, lambda: MySource(...), expected=[...])

Some cases test the source alone, others run jobs with it on the engine's own tasks, and kill them. A source that is not
replayable (``replayable = False``) has no such contract.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import cloudpickle

from tidemill.connectors.sources import MadeRecords, Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.faults import Fault
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape
from tidemill.testing.job_harness import JobHarness

__all__ = ["SOURCE_CASES", "SourceCase", "check_source"]

_POINTS: Final = ("offsets.logged", "task.batch", "acks.collected", "manifest.after", "epoch.done")
#: No source in a test needs more epochs than this: a source that does is considered stuck.
_MOST_EPOCHS: Final = 100_000


class SourceRun:
    """A source whose records are read as the engine does."""

    def __init__(self, make_source: Callable[[], SplitSource], expected: Sequence[Any]) -> None:
        self.make_source = make_source
        self.expected = expected

    @contextlib.contextmanager
    def enumerator(self, position: Position | None = None) -> Iterator[SplitEnumerator]:
        """Open an enumerator of a new source, at a position that has been stored as JSON."""
        stored = None if position is None else json.loads(json.dumps(position))
        opened = self.make_source().create_enumerator(stored)
        try:
            yield opened
        finally:
            opened.close()

    def read(self, splits: Iterable[Split | Sequence[Split]]) -> list[Any]:
        """Read the records of splits with a copy of the source, from copies of the splits, as on a worker."""
        source: SplitSource = cloudpickle.loads(cloudpickle.dumps(self.make_source()))
        copies: list[list[Split]] = cloudpickle.loads(cloudpickle.dumps([_several(some) for some in splits]))
        return [record for some in copies for split in some for record in _records(source, split)]

    def epochs(self, position: Position | None, parallelism: int, max_records: int) -> Iterator[tuple[list[Any], Any]]:
        """Return the records of each epoch, starting at a position, and the position after each epoch."""
        with self.enumerator(position) as enumerator:
            for _ in range(_MOST_EPOCHS):
                if enumerator.finished:
                    return
                if not enumerator.available():
                    if not self.make_source().bounded:
                        return
                    continue
                splits = enumerator.next_splits(parallelism, max_records)
                if len(splits) > parallelism:
                    raise AssertionError(f"{len(splits)} entries of splits for {parallelism} subtasks")
                yield self.read(splits), enumerator.position()
        raise AssertionError(f"the source has not ended after {_MOST_EPOCHS} epochs")

    def check(self, found: Iterable[Any], when: str) -> None:
        """Compare the records with the expected ones; their order is ignored, because subtasks read in parallel."""
        have, wanted = _counted(found), _counted(self.expected)
        if missing := wanted - have:
            raise AssertionError(f"{when}: {_shown(missing)} was not read")
        if more := have - wanted:
            raise AssertionError(f"{when}: {_shown(more)} was read, but should not have been, or not so often")


@dataclass(frozen=True)
class SourceCase:
    """One requirement that a source must meet."""

    name: str
    run: Callable[[SourceRun], None]

    def __str__(self) -> str:
        return self.name


def check_source(case: SourceCase, source: Callable[[], SplitSource], expected: Iterable[Any]) -> None:
    """Run a case; raises :class:`AssertionError` if the source does not meet the requirement.

    ``source`` creates the source as a program does when it starts; ``expected`` are its records. An unbounded source is
    read as long as it has records ``available()``.
    """
    case.run(SourceRun(source, list(expected)))


def _all_at_once(run: SourceRun) -> None:
    records = [record for epoch, _ in run.epochs(None, 1, 1 << 40) for record in epoch]
    run.check(records, "read in one epoch by one subtask")


def _in_small_epochs(parallelism: int, run: SourceRun) -> None:
    for most in (1, 2, 3, 7):
        records = [record for epoch, _ in run.epochs(None, parallelism, most) for record in epoch]
        run.check(records, f"read with max_records={most} by {parallelism} subtasks")


def _bounded_epochs(run: SourceRun) -> None:
    most = max(1, len(run.expected) // 4)
    sizes = [len(epoch) for epoch, _ in run.epochs(None, 1, most)]
    if sizes and max(sizes) > 2 * most and len(run.expected) > 4:
        raise AssertionError(f"an epoch of about {most} records has {max(sizes)}: next_splits() ignores max_records")


def _restart_anywhere(run: SourceRun) -> None:
    positions: list[Any] = [None]
    before: list[list[Any]] = [[]]
    for epoch, position in run.epochs(None, 2, 3):
        positions.append(position)
        before.append(before[-1] + epoch)
    for position, read in zip(positions, before, strict=True):
        rest = [record for epoch, _ in run.epochs(position, 3, 5) for record in epoch]
        run.check(read + rest, f"started again at {json.dumps(position)}")


def _same_position_same_records(run: SourceRun) -> None:
    position: Any = None
    for epoch, after in run.epochs(None, 2, 3):
        with run.enumerator(position) as again:
            repeated = run.read(again.next_splits(2, 3)) if not again.finished else []
        if _counted(repeated) != _counted(epoch):
            raise AssertionError(
                f"from {json.dumps(position)} an epoch had {_shown(_counted(epoch))}, and then "
                f"{_shown(_counted(repeated))}"
            )
        position = after


def _split_read_twice(run: SourceRun) -> None:
    with run.enumerator() as enumerator:
        splits = enumerator.next_splits(2, 5) if enumerator.available() else []
        if run.read(splits) != run.read(splits):
            raise AssertionError("a split returned other records when it was read again, as a retried task does")


def _asking_changes_nothing(run: SourceRun) -> None:
    with run.enumerator() as enumerator:
        while not enumerator.finished and enumerator.available():
            position = json.dumps(enumerator.position())
            for ask in (enumerator.available, enumerator.pending_records, enumerator.position):
                ask()
            if json.dumps(enumerator.position()) != position:
                raise AssertionError("a query of what is available changes the position of the enumerator")
            enumerator.next_splits(2, 3)
            if json.dumps(enumerator.position()) == position and not enumerator.finished:
                raise AssertionError(f"next_splits() leaves the position at {position}: it repeats the same records")


def _killed(point: str, run: SourceRun) -> None:
    _job(run, lambda job: job.crash(Fault(point)))


def _rescaled(run: SourceRun) -> None:
    _job(run, lambda job: job.restart(parallelism=3))


def _job(run: SourceRun, trouble: Callable[[JobHarness], None]) -> None:
    """Run a job in small epochs, and call ``trouble`` in the second epoch."""

    def build(env: StreamExecutionEnvironment) -> DataStream:
        return env.from_source(run.make_source(), None, "source").uid("source")

    with JobHarness(build, parallelism=2, max_records=3) as job:
        job.epoch()
        if job.has_input:
            trouble(job)
        job.run()
        run.check(job.output(), "in a job")


def _records(source: SplitSource, split: Split) -> Iterator[Any]:
    for batch in source.read(split):
        if isinstance(batch, (RecordBatch, MadeRecords)):
            yield from batch.values
        else:
            yield from ColumnBatch(batch, RecordShape.of(getattr(source, "type_info", None))).values


def _several(splits: Split | Sequence[Split]) -> list[Split]:
    return [splits] if isinstance(splits, Split) else list(splits)


def _counted(records: Iterable[Any]) -> Counter[str]:
    """Count records by their text, because they may not be hashable."""
    return Counter(map(repr, records))


def _shown(records: Counter[str]) -> str:
    shown = sorted(record[:60] for record in records.elements())
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "") or "nothing"


SOURCE_CASES: Final = (
    SourceCase("all at once", _all_at_once),
    *(SourceCase(f"in small epochs by {n}", partial(_in_small_epochs, n)) for n in (1, 2, 5)),
    SourceCase("epochs have about as many records as asked for", _bounded_epochs),
    SourceCase("started again at any position", _restart_anywhere),
    SourceCase("the same position gives the same records", _same_position_same_records),
    SourceCase("a split is read twice", _split_read_twice),
    SourceCase("asking changes nothing", _asking_changes_nothing),
    *(SourceCase(f"a job killed at {point}", partial(_killed, point)) for point in _POINTS),
    SourceCase("a job rescaled", _rescaled),
)
