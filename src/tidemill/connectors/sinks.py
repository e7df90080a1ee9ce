"""What a sink is to the engine: a writer on each subtask and, for exactly once, a committer on the driver.

One epoch of a two-phase sink: the writer takes batches; at the barrier ``prepare_commit`` makes what it wrote durable
and returns committables; the driver stores them in the manifest, which is the commit point; then the committer commits
them, idempotently, because after a crash it is asked again.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tidemill.common.configuration import Configuration
    from tidemill.common.typeinfo import TypeInformation
    from tidemill.datastream.functions.base import RuntimeContext


class SinkLog(Protocol):
    """Files that a sink keeps beside the job's checkpoints: durable before an epoch is, and gone after its commit.

    Each file is written once, by one attempt. Names hold the lineage, so that leftovers can be told by age.
    """

    def write(self, context: WriterContext, part: int, data: bytes) -> str:
        """Store a part of what an attempt writes; durable on return. Returns the name to read it by."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises :class:`~tidemill.errors.CheckpointError` if it is gone."""
        ...

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; what is gone already is fine."""
        ...

    def leftovers(self, in_use: Sequence[str], lineage: str) -> list[str]:
        """The sink's files of ``lineage`` and older ones, except those in use."""
        ...


@dataclass(frozen=True)
class WriterContext:
    """Who is writing: unique names can be built from (job, lineage, epoch, subtask, attempt).

    Epochs count up along the lineages of one ``history``; lineages sort by age, as texts. A job that starts from a
    savepoint, or anew, has a history of its own, also in a directory in which it had one before, and may come to the
    same epochs again with other records.
    """

    job_id: str
    operator_uid: str
    subtask: int
    parallelism: int
    lineage: str
    epoch: int
    attempt: str
    #: The epoch's processing-time clock in ms; None stands for the wall clock.
    processing_time: int | None = None
    history: str = ""
    #: None only where a writer is used by hand.
    log: SinkLog | None = None


class SinkWriter(abc.ABC):
    """Writes the records of one subtask. Stays open between epochs on a warm worker."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once after the writer is created, before the first epoch."""

    def begin_epoch(self, context: WriterContext) -> None:
        """Called before the first record of an epoch."""

    @abc.abstractmethod
    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Take one batch of records."""

    def write_watermark(self, watermark: int) -> None:
        """The event-time clock moved to ``watermark``."""

    def prepare_commit(self) -> Sequence[bytes]:
        """Make what was written since ``begin_epoch`` durable; return what the committer needs, as opaque bytes."""
        return ()

    def due(self) -> int | None:
        """The processing time, in ms, at which the writer wants an epoch even if no record comes; None: never."""
        return None

    def close(self) -> None:
        """Release resources; uncommitted work may be dropped."""


class StatefulSinkWriter(SinkWriter):
    """A writer that resumes from its state, as in Flink: see :class:`SupportsWriterState`."""

    @abc.abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[Any]:
        """The writer's whole state at the end of an epoch, after ``prepare_commit``.

        After a change of parallelism its elements are dealt out evenly: each must make sense to a writer on its own.
        """


@dataclass(frozen=True)
class Committed:
    """The committables of one subtask in one committed epoch.

    With ``again`` a driver that has just started does not know whether its predecessor got to commit them.
    """

    epoch: int
    subtask: int
    committables: Sequence[bytes]
    again: bool = False


@dataclass(frozen=True)
class CommitterContext:
    """Whose committables are committed."""

    job_id: str
    operator_uid: str
    #: None only where a committer is used by hand.
    log: SinkLog | None = None


class Committer(abc.ABC):
    """Commits after the manifest is durable, in order of epochs; on the driver, where one thread makes all calls.

    With ``on_workers`` the commits of different subtasks are independent of each other, and may be heavy. Those of an
    epoch then run beside each other as tasks, each with one subtask's committables, in committers of their own that
    stay open between epochs; little work is still done on the driver. ``discard`` is the driver's alone.

    Whatever ``commit`` raises fails the job; after the restart, if the strategy allows one, the same committables come
    again. So they do if it does not return within ``sink.committer.timeout``: what hangs may still take effect later,
    beside or after a second call.
    """

    #: Whether commits may run on workers, subtask by subtask.
    on_workers: bool = False
    #: Whether an epoch is one commit: ``commit`` is then never given a part of its subtasks.
    whole_epochs: bool = False

    def open(self, context: CommitterContext) -> None:
        """Called once after the committer is created, before anything else."""

    @abc.abstractmethod
    def commit(self, committed: Sequence[Committed]) -> None:
        """Commit; must be idempotent: after a crash the same committables come again.

        A driver that was taken over may ask late, when its successor has committed later epochs: that, too, must change
        nothing.
        """

    def weight(self, committed: Committed) -> int:
        """About how many bytes it takes to commit this: where ``on_workers``, it decides who does it."""
        return sum(map(len, committed.committables))

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        """Remove leftovers of attempts that never committed; called when a job opens a lineage, and when it ends.

        Only those of ``lineage`` and older ones: the driver that asks may have been taken over without knowing, and
        what a newer lineage has prepared is still to be committed. Lineages sort by age, as texts.
        """

    def close(self) -> None:
        """Release resources."""


class Sink(abc.ABC):
    """Base of all sinks; pickled to the workers, so it must hold plain configuration only."""

    #: The guarantee with a replayable source. "exactly-once": each result is visible once, when its epoch is committed.
    #: "effectively-once": repeated writes overwrite each other, and may be seen before. "at-least-once": after a
    #: failure results may be there twice. "none": they may also be missing.
    guarantee: str = "at-least-once"
    #: Whether results are for people to read, as printed ones are: a job does not warn that they may come twice.
    for_reading: bool = False
    #: Whether the committer unpickles what it commits. A job does not take such results from a savepoint that it has no
    #: reason to trust.
    pickled_committables: bool = False

    @abc.abstractmethod
    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """The writer of one subtask."""

    def create_committer(self) -> Committer | None:
        """The committer, for sinks with two phases."""
        return None

    def configured(self, configuration: Configuration) -> Sink:
        """The sink as a job with this configuration runs it; asked for when the job is started."""
        return self


class SupportsWriterState(abc.ABC):
    """For sinks whose writers have state: what they hold back over epochs, or how far an outside system has come.

    All writers of such a sink are of :class:`StatefulSinkWriter`. Their state is operator state: it is part of every
    epoch, and goes with a job that is restarted or rescaled.

    >>> class InTens(Sink, SupportsWriterState):
    ...     '''Prints ten records at a time; what does not make ten yet waits for the next epoch.'''
    ...     def create_writer(self, subtask, parallelism):
    ...         return TensWriter([])
    ...     def restore_writer(self, subtask, parallelism, recovered_state):
    ...         return TensWriter(recovered_state)
    >>> class TensWriter(StatefulSinkWriter):
    ...     def __init__(self, waiting):
    ...         self.waiting = list(waiting)
    ...     def write(self, values, timestamps):
    ...         self.waiting += values
    ...         while len(self.waiting) >= 10:
    ...             print(self.waiting[:10])
    ...             del self.waiting[:10]
    ...     def snapshot_state(self, checkpoint_id):
    ...         return self.waiting
    >>> writer = InTens().restore_writer(0, 1, [1, 2, 3])
    >>> writer.write([4, 5, 6, 7, 8, 9, 10, 11], None)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    >>> writer.snapshot_state(7)
    [11]
    """

    @abc.abstractmethod
    def restore_writer(self, subtask: int, parallelism: int, recovered_state: Sequence[Any]) -> StatefulSinkWriter:
        """The writer of one subtask of a job that resumes from committed state: the elements assigned to it."""

    def get_writer_state_type(self) -> TypeInformation | None:
        """The type of an element of the state; by default they may be anything that can be pickled."""
        return None
