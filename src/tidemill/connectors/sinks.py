"""The contract between sinks and the engine: a writer on each subtask and, for exactly-once, a committer on the driver.

One epoch of a two-phase sink: the writer receives batches. At the barrier, ``prepare_commit`` makes the written data
durable and returns committables. The driver stores them in the manifest, which is the commit point. The committer then
commits them. Commits must be idempotent, because they are repeated after a crash.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemill.common.configuration import Configuration
    from tidemill.common.typeinfo import TypeInformation
    from tidemill.datastream.functions.base import RuntimeContext


class SinkLog(Protocol):
    """Files that a sink stores next to the job's checkpoints.

    They are durable before their epoch is, and are deleted after its commit. Each file is written once, by one attempt.
    File names contain the lineage, so that leftover files can be identified by age.
    """

    def write(self, context: WriterContext, part: int, data: bytes) -> str:
        """Store one part of an attempt's output, durable on return, and return the name to read it by."""
        ...

    def read(self, name: str) -> bytes:
        """Return the contents of a file. Raises :class:`~tidemill.errors.CheckpointError` if it does not exist."""
        ...

    def exists(self, name: str) -> bool:
        """Whether a file exists."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete files. Files that do not exist are ignored."""
        ...

    def leftovers(self, in_use: Sequence[str], lineage: str) -> list[str]:
        """Return the sink's files of ``lineage`` and older lineages, except those in use."""
        ...


@dataclass(frozen=True)
class WriterContext:
    """Identifies the writer of an epoch.

    The combination of job, lineage, epoch, subtask and attempt is unique and can be used to build unique names.

    Epoch numbers increase along the lineages of one ``history``. Lineages sort by age, as strings. A job that starts
    from a savepoint, or without state, gets a new history, even in a directory in which it had one before. It may reach
    the same epoch numbers again with other records.
    """

    job_id: str
    operator_uid: str
    subtask: int
    parallelism: int
    lineage: str
    epoch: int
    attempt: str
    #: The epoch's processing time in ms; None means the wall clock.
    processing_time: int | None = None
    history: str = ""
    #: None only if the writer is used outside of a job.
    log: SinkLog | None = None
    #: Whether the epoch is a checkpoint. Without a checkpoint interval, each epoch is one.
    checkpoint: bool = True
    #: The processing time in ms at which the next checkpoint is due; None if each epoch is one.
    next_checkpoint: int | None = None


class SinkWriter(abc.ABC):
    """Writes the records of one subtask. It stays open between epochs while its worker is reused."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once after the writer is created, before the first epoch."""

    def begin_epoch(self, context: WriterContext) -> None:
        """Called before the first record of an epoch."""

    @abc.abstractmethod
    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Write one batch of records."""

    def write_columns(self, columns: pa.RecordBatch, timestamps: pa.Int64Array | None) -> bool:
        """Write one batch of records that are columns, or return False: :meth:`write` is called with them then.

        The fields of a tuple are the columns in order. ``timestamps`` has a null where a record has no timestamp.
        """
        return False

    def write_watermark(self, watermark: int) -> None:
        """Called when the event-time clock advances to ``watermark``."""

    def prepare_commit(self) -> Sequence[bytes]:
        """Make everything written since ``begin_epoch`` durable and return committables, as opaque bytes."""
        return ()

    def due(self) -> int | None:
        """Return the processing time, in ms, at which the writer needs an epoch even without input.

        None means never.
        """
        return None

    def close(self) -> None:
        """Release resources; uncommitted output may be discarded."""


class StatefulSinkWriter(SinkWriter):
    """A writer that can be restored from its state, as in Flink: see :class:`SupportsWriterState`."""

    @abc.abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[Any]:
        """Return the writer's complete state at the end of an epoch, after ``prepare_commit``.

        After a change of parallelism the elements are redistributed evenly, so a writer must be able to restore each
        element on its own.
        """


@dataclass(frozen=True)
class Committed:
    """The committables of one subtask in one committed epoch.

    ``again`` is set by a driver that has just started and does not know whether its predecessor committed them.
    """

    epoch: int
    subtask: int
    committables: Sequence[bytes]
    again: bool = False


@dataclass(frozen=True)
class CommitterContext:
    """Identifies the sink whose committables are committed."""

    job_id: str
    operator_uid: str
    #: None only if the committer is used outside of a job.
    log: SinkLog | None = None


class Committer(abc.ABC):
    """Commits epochs in order, each after its manifest is durable. Runs on the driver, which calls it from one thread.

    Set ``on_workers`` if the commits of different subtasks are independent of each other and may be expensive. The
    commits of an epoch then run in parallel as tasks, each with one subtask's committables and its own committer, which
    stays open between epochs. Small commits still run on the driver. ``discard`` is only called on the driver.

    An exception from ``commit`` fails the job. After the restart, if the restart strategy allows one, the same
    committables are passed again. This also happens if ``commit`` does not return within ``sink.committer.timeout``: a
    call that hangs may still take effect later, during or after a second call.
    """

    #: Whether commits may run on workers, one task per subtask.
    on_workers: bool = False
    #: Whether an epoch is a single commit: ``commit`` then always receives all subtasks of an epoch together.
    whole_epochs: bool = False

    def open(self, context: CommitterContext) -> None:
        """Called once after the committer is created, before any other method."""

    @abc.abstractmethod
    def commit(self, committed: Sequence[Committed]) -> None:
        """Commit the committables; must be idempotent, because they are passed again after a crash.

        A driver that has been superseded may call this late, after its successor has committed later epochs. Such a
        call must have no effect either.
        """

    def weight(self, committed: Committed) -> int:
        """Return the approximate size of a commit in bytes; with ``on_workers``, it decides where the commit runs."""
        return sum(map(len, committed.committables))

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        """Remove leftovers of attempts that were never committed; called when a job opens a lineage, and when it ends.

        Remove only leftovers of ``lineage`` and older lineages: the calling driver may have been superseded without
        knowing it, and what a newer lineage has prepared is still to be committed. Lineages sort by age, as strings.
        """

    def close(self) -> None:
        """Release resources."""


class Sink(abc.ABC):
    """Base class of all sinks. It is pickled and sent to the workers, so it must contain only plain configuration."""

    #: The guarantee with a replayable source. "exactly-once": each result is visible once, when its epoch is committed.
    #: "effectively-once": repeated writes overwrite each other, and may be visible before the commit. "at-least-once":
    #: after a failure there may be duplicate results. "none": results may also be lost.
    guarantee: str = "at-least-once"
    #: Whether results are only meant to be read by people, such as printed output. If so, the job does not warn about
    #: possible duplicates.
    for_reading: bool = False
    #: Whether the committer unpickles committables. A job does not accept them from an untrusted savepoint.
    pickled_committables: bool = False
    #: Whether its writers implement :meth:`SinkWriter.write_columns`.
    takes_columns: bool = False

    @abc.abstractmethod
    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create the writer of one subtask."""

    def create_committer(self) -> Committer | None:
        """Create the committer, for two-phase sinks."""
        return None

    def configured(self, configuration: Configuration) -> Sink:
        """Return the sink to use in a job with this configuration; called when the job is started."""
        return self


class SupportsWriterState(abc.ABC):
    """For sinks whose writers have state, such as buffered records or the progress of an external system.

    All writers of such a sink must be :class:`StatefulSinkWriter`. Their state is operator state: it is part of every
    epoch, and is restored when a job is restarted or rescaled.

    >>> class InTens(Sink, SupportsWriterState):
    ...     '''Prints ten records at a time; an incomplete group is kept for the next epoch.'''
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
        """Create the writer of one subtask from the state elements assigned to it, when a job resumes."""

    def get_writer_state_type(self) -> TypeInformation | None:
        """Return the type of a state element; by default any object that can be pickled."""
        return None
