"""A job that writes to one sink, and the events that can happen to it; used by the cases of ``sink_contract``."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.connectors.sinks import (
    Committed,
    Committer,
    CommitterContext,
    Sink,
    SinkWriter,
    SupportsWriterState,
    WriterContext,
)
from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import TidemillError
from tidemill.faults import Fault, ProcessDeath
from tidemill.runtime.task.sink_log import StoredSinkLog
from tidemill.testing.job_harness import JobHarness
from tidemill.testing.scripted_source import Script

_UID: Final = "sink"
_JOB: Final = "job-harness"
#: The fault points at which the running epoch is already committed.
AFTER_MANIFEST: Final = ("manifest.after", "sink.commit.before", "sink.commit.after", "epoch.done")
#: The maximum number of restarts that a sink may need to complete an epoch: a driver that returns late may take a
#: resource from its successor, which must then get it back.
_MOST_RESTARTS: Final = 2


class DriverKilledError(ProcessDeath):
    """Simulates that a driver dies in the middle of a commit. The code under test must not catch it."""


class _Commands:
    """The commands for the next commit, and the committers so far. All copies of the sink share one object."""

    def __init__(self) -> None:
        self.die_after: int | None = None
        self.committers: list[WatchedCommitter] = []
        _known[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_find_commands, (id(self),))

    def forget(self) -> None:
        _known.pop(id(self), None)


_known: Final[dict[int, _Commands]] = {}


def _find_commands(number: int) -> _Commands:
    return _known[number]


class _WatchedSink(Sink):
    def __init__(self, sink: Sink, commands: _Commands) -> None:
        self.sink: Any = sink
        self.guarantee = sink.guarantee
        self.commands = commands

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        writer: SinkWriter = self.sink.create_writer(subtask, parallelism)
        return writer

    def create_committer(self) -> Committer | None:
        committer = self.sink.create_committer()
        return None if committer is None else WatchedCommitter(committer, self.commands)


class _WatchedStatefulSink(_WatchedSink, SupportsWriterState):
    def restore_writer(self, subtask: int, parallelism: int, recovered_state: Sequence[Any]) -> Any:
        return self.sink.restore_writer(subtask, parallelism, recovered_state)

    def get_writer_state_type(self) -> Any:
        return self.sink.get_writer_state_type()


class WatchedCommitter(Committer):
    """Passes parts to the sink's committer one by one, and dies on command. It keeps the parts of the last commit."""

    def __init__(self, inner: Committer, commands: _Commands) -> None:
        self.inner = inner
        self.on_workers = inner.on_workers
        self.last: list[Committed] = []
        self._commands = commands

    def open(self, context: CommitterContext) -> None:
        self.inner.open(context)

    def commit(self, committed: Sequence[Committed]) -> None:
        self.last = list(committed)
        self._commands.committers.append(self)
        for parts in [committed] if self.inner.whole_epochs else [[part] for part in committed]:
            self._die_if_told()
            self.inner.commit(parts)
            if self._commands.die_after is not None:
                self._commands.die_after -= 1
        self._die_if_told()

    def weight(self, committed: Committed) -> int:
        return self.inner.weight(committed)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        self.inner.discard(names_in_use, lineage)

    def close(self) -> None:
        self.inner.close()

    def _die_if_told(self) -> None:
        if self._commands.die_after == 0:
            self._commands.die_after = None
            raise DriverKilledError


class SinkRun:
    """The job, the records it has committed, and the events to apply to it. Each step ends with a :meth:`check`."""

    def __init__(
        self,
        make_sink: Callable[[], Sink],
        visible: Callable[[], Iterable[Any]],
        record: Callable[[int], Any],
        records: int,
    ) -> None:
        # configuration
        self._make_sink = make_sink
        self._visible = visible
        self._record = record
        self._records = records
        self._guarantee = make_sink().guarantee
        # transient
        self._numbers = itertools.count()
        self._commands = _Commands()
        self._committed: list[Any] = []
        self._running: list[Any] = []
        self.job = self._start()

    # --- events

    def epoch(self, records: int | None = None) -> None:
        """Run and commit an epoch."""
        self._running = self._fresh(records)
        self._run(lambda: self.job.epoch(records=self._running))

    def crash(self, point: str, skip: int = 0, *, records: int | None = None, parallelism: int | None = None) -> None:
        """Kill the job at a point of the protocol and restart it. The epoch is committed in the end."""
        self._running = self._fresh(records)
        self.job.crash(Fault(point, skip=skip), records=self._running)
        if point in AFTER_MANIFEST:
            self._done(f"after a crash at {point}")
        self.check(f"after a crash at {point}")
        if parallelism is not None:
            self.restart(parallelism)
        if point not in AFTER_MANIFEST:
            self._run(self.job.epoch)

    def die_in_commit(self, parts: int, *, parallelism: int | None = None) -> WatchedCommitter:
        """Kill the driver in the commit of an epoch, after ``parts`` subtasks; another driver takes over.

        Returns the committer of the dead driver.
        """
        zombie = self._begin_to_die(parts)
        self.job.restart(parallelism=parallelism, crashed=True)
        self._done("after a driver died in a commit")
        return zombie

    def die_committing_again(self, parts: int) -> None:
        """Kill a driver before its commit, and its successor during the commit; the third driver completes it."""
        self._begin_to_die(0)
        self._commands.die_after = parts
        with contextlib.suppress(DriverKilledError):
            self.job.restart(crashed=True)
        self.job.restart(crashed=True)
        self._done("after two drivers died in a commit")

    def commit_late(self, zombie: WatchedCommitter, *, again: bool = False) -> None:
        """Let a driver commit its last epoch (again) after others have continued the job. It may be rejected."""
        parts = [Committed(part.epoch, part.subtask, part.committables, again) for part in zombie.last]
        with contextlib.suppress(TidemillError):
            zombie.inner.commit(parts)
        self.check("after a late commit")

    def discard_late(self, zombie: WatchedCommitter, lineage: str) -> None:
        """Let a driver that was replaced clean up what its own lineage and older lineages have left."""
        zombie.inner.discard([], lineage)
        self.check("after a late cleanup")

    def prepare_only(self) -> None:
        """Kill the driver after its manifest and before any commit. No other driver takes over yet."""
        self._begin_to_die(0)

    def take_over(self) -> None:
        """Let another driver take over after :meth:`prepare_only`."""
        self.job.restart(crashed=True)
        self._done("after a takeover")

    def leave_attempt_behind(self) -> None:
        """Let an attempt of the next epoch prepare its commit and then vanish, as a losing speculative task or a dead
        worker does."""
        head, history = self.job.head, ManifestLog(self.job.storage, _JOB).read(1).lineage
        log = StoredSinkLog(self.job.storage, _UID)
        writer = self._make_sink().create_writer(0, 2)
        writer.begin_epoch(
            WriterContext(_JOB, _UID, 0, 2, head.lineage, head.epoch + 1, "lost", history=history, log=log)
        )
        writer.write(self._fresh(None), None)
        writer.prepare_commit()
        self.check("after an attempt that was lost")

    def last_committer(self) -> WatchedCommitter:
        """Return the committer of the last commit."""
        return self._commands.committers[-1]

    def restart(self, parallelism: int | None = None) -> None:
        """Stop the job and start it again."""
        self.job.restart(parallelism=parallelism)
        self.check("after a restart")

    def begin_elsewhere(self) -> None:
        """Start the job with the same id and an empty directory: its epochs start at 1 again."""
        self.job.close()
        self.job = self._start()

    def end(self) -> None:
        """Stop the job."""
        self.job.close()
        self._commands.forget()
        self.check("at the end")

    # --- checks

    def check(self, when: str) -> None:
        """Compare the visible records with the committed ones."""
        seen, wanted = Counter(self._visible()), Counter(self._committed)
        if missing := wanted - seen:
            raise AssertionError(f"{when}: {_shown(missing)} of committed epochs is not visible")
        more = seen - wanted
        if self._guarantee == "at-least-once":
            more = Counter(record for record in more if record not in wanted and record not in self._running)
        elif self._guarantee == "effectively-once":
            more -= Counter(self._running)
        if more:
            raise AssertionError(f"{when}: {_shown(more)} is visible, but should not be")

    # --- building blocks

    def _start(self) -> JobHarness:
        return JobHarness(self._build, inputs={"records": Script()}, storage=MemoryStorage(), parallelism=2)

    def _build(self, env: StreamExecutionEnvironment, records: DataStream) -> None:
        sink = self._make_sink()
        watched = _WatchedStatefulSink if isinstance(sink, SupportsWriterState) else _WatchedSink
        records.rebalance().sink_to(watched(sink, self._commands)).uid(_UID)

    def _fresh(self, records: int | None) -> list[Any]:
        return [self._record(next(self._numbers)) for _ in range(self._records if records is None else records)]

    def _begin_to_die(self, parts: int) -> WatchedCommitter:
        self._running = self._fresh(None)
        self._commands.die_after = parts
        try:
            self.job.epoch(records=self._running)
        except DriverKilledError:
            return self._commands.committers[-1]
        raise AssertionError("the sink's committer received nothing to commit")

    def _run(self, run: Callable[[], None]) -> None:
        """Commit the running epoch, with restarts if the sink needs them."""
        before = self.job.head.epoch
        for restarts in range(_MOST_RESTARTS + 1):
            try:
                run()
                break
            except TidemillError:
                if restarts == _MOST_RESTARTS:
                    raise
                self.job.restart(crashed=True)
                if self.job.head.epoch > before:
                    break
                run = self.job.epoch
        self._done("after an epoch")

    def _done(self, when: str) -> None:
        self._committed += self._running
        self._running = []
        self.check(when)


def _shown(records: Counter[Any]) -> str:
    return ", ".join(sorted(repr(record)[:40] for record in records.elements()))
