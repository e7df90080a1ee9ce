"""Two-phase commit, for systems that can keep prepared data after a crash and commit it from another process.

:class:`TwoPhaseCommittingSink` is the general form: a writer prepares, a committer commits, and committables are bytes.
:class:`TwoPhaseCommitSinkFunction` is Flink's older class: one class that covers all steps of a transaction.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from tidemill.common.calls import note_record
from tidemill.common.moved import unpickle
from tidemill.connectors.function_sink import RecordContext
from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkLog, SinkWriter, WriterContext
from tidemill.connectors.write_ahead_log import pickled
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.basic import SinkFunction

__all__ = ["TwoPhaseCommitSinkFunction", "TwoPhaseCommittingSink"]

#: Identifies a transaction in any process: a name, a path or an id.
T = TypeVar("T")

_UNKNOWN: Final = "begin_epoch() must be called before the first record"


class TwoPhaseCommittingSink(Sink):
    """Base class of sinks whose writers prepare an epoch's results, and whose committer makes them visible.

    1. ``SinkWriter.write`` writes batches, which must not be visible to readers.
    2. ``SinkWriter.prepare_commit``, at the end of the epoch, makes them durable and returns what the committer needs.
       From then on they must survive a crash of all processes, and must not expire by a timeout.
    3. ``Committer.commit``, after the manifest is durable, makes them visible. It is repeated after a crash, and may be
       called late.
    4. ``Committer.discard`` removes prepared results that no manifest contains.

    >>> import json
    >>> from pathlib import Path
    >>> class Renaming(TwoPhaseCommittingSink):
    ...     '''Each subtask's results of an epoch are a file, written under a hidden name and then renamed.'''
    ...     def __init__(self, directory):
    ...         self.directory = directory
    ...     def create_writer(self, subtask, parallelism):
    ...         return HiddenFiles(self.directory)
    ...     def create_committer(self):
    ...         return Renames(self.directory)
    >>> class HiddenFiles(SinkWriter):
    ...     def __init__(self, directory):
    ...         self.directory = Path(directory)
    ...     def begin_epoch(self, context):
    ...         self.final = f"{context.epoch:012d}-{context.subtask}"
    ...         self.hidden = f".{self.final}~{context.lineage}~{context.attempt}"  # no two attempts share a name
    ...         self.records = []
    ...     def write(self, values, timestamps):
    ...         self.records += values
    ...     def prepare_commit(self):
    ...         if not self.records:
    ...             return ()
    ...         (self.directory / self.hidden).write_text(json.dumps(self.records))
    ...         return [json.dumps([self.hidden, self.final]).encode()]
    >>> class Renames(Committer):
    ...     def __init__(self, directory):
    ...         self.directory = Path(directory)
    ...     def commit(self, committed):
    ...         for part in committed:
    ...             for committable in part.committables:
    ...                 hidden, final = json.loads(committable)
    ...                 if (self.directory / hidden).exists():  # else it was committed before
    ...                     (self.directory / hidden).rename(self.directory / final)
    ...     def discard(self, names_in_use, lineage):
    ...         keep = {json.loads(committable)[0] for committable in names_in_use}
    ...         for file in self.directory.glob(".*~*~*"):
    ...             if file.name not in keep and file.name.split("~")[1] <= lineage:
    ...                 file.unlink()
    """

    guarantee = "exactly-once"

    @abc.abstractmethod
    def create_committer(self) -> Committer:
        """Create the committer."""


class TwoPhaseCommitSinkFunction(Sink, Generic[T]):
    """A sink in the form of Flink's class of the same name: ``stream.add_sink(function)``.

    A subtask begins a transaction with the first record of an epoch, and pre-commits it at the end of the epoch. The
    transaction is committed with the epoch. Transactions of failed attempts are aborted when the job is restarted, or
    when it ends.

    ``commit``, ``recover_and_commit`` and ``recover_and_abort`` are called on a copy of the function on the driver,
    where ``open`` is not called. Everything they need must be in the transaction, or in the attributes of the function.
    A transaction is the object that :meth:`begin_transaction` returns, and must be picklable. The three methods must be
    idempotent: a transaction that no longer exists has already been committed or aborted.

    >>> import os, tempfile
    >>> from pathlib import Path
    >>> class Files(TwoPhaseCommitSinkFunction[str]):
    ...     def __init__(self, directory):
    ...         self.directory = directory
    ...     def begin_transaction(self):
    ...         handle, hidden = tempfile.mkstemp(prefix=".", dir=self.directory)
    ...         os.close(handle)
    ...         return hidden
    ...     def invoke(self, transaction, value, context):
    ...         with open(transaction, "a") as file:
    ...             file.write(f"{value}\\n")
    ...     def pre_commit(self, transaction):
    ...         pass
    ...     def commit(self, transaction):
    ...         if os.path.exists(transaction):
    ...             os.rename(transaction, transaction.replace("/.", "/"))
    ...     def abort(self, transaction):
    ...         if os.path.exists(transaction):
    ...             os.remove(transaction)
    >>> from tidemill.testing import JobHarness
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     def program(env):
    ...         env.from_collection([1, 2, 3]).add_sink(Files(directory))
    ...     with JobHarness(program, parallelism=1) as job:
    ...         job.end()
    ...     [file.read_text() for file in Path(directory).iterdir()]
    ['1\\n2\\n3\\n']
    """

    guarantee = "exactly-once"
    pickled_committables = True

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called in each subtask before its first record."""

    @abc.abstractmethod
    def begin_transaction(self) -> T:
        """Begin a new transaction and return an object that identifies it in every process."""

    @abc.abstractmethod
    def invoke(self, transaction: T, value: Any, context: SinkFunction.Context) -> None:
        """Write one record into the transaction."""

    @abc.abstractmethod
    def pre_commit(self, transaction: T) -> None:
        """Make the transaction durable: afterwards it must be possible to commit it after any crash."""

    @abc.abstractmethod
    def commit(self, transaction: T) -> None:
        """Make the records of a prepared transaction visible."""

    @abc.abstractmethod
    def abort(self, transaction: T) -> None:
        """Abort a transaction that will not be committed."""

    def recover_and_commit(self, transaction: T) -> None:
        """Commit a transaction that a crashed driver may already have committed."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: T) -> None:
        """Abort a transaction that a crashed attempt has left behind."""
        self.abort(transaction)

    def close(self) -> None:
        """Called in each subtask when it ends."""

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that calls the function."""
        return _TransactionWriter(self)

    def create_committer(self) -> Committer:
        """Create a committer that calls the function."""
        return _TransactionCommitter(self)


class _TransactionWriter(SinkWriter):
    """Logs the handle of each transaction when it begins, so that it can be aborted after a crash."""

    def __init__(self, function: TwoPhaseCommitSinkFunction[Any]) -> None:
        self._function = function
        self._record = RecordContext()
        self._writer: WriterContext | None = None
        self._open: Any = None
        self._is_open = False
        self._logged = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def begin_epoch(self, context: WriterContext) -> None:
        self._writer = context
        self._record.processing_time = context.processing_time

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        if not self._is_open:
            self._begin()
        invoke, transaction, context = self._function.invoke, self._open, self._record
        times: Sequence[int | None] = [None] * len(values) if timestamps is None else timestamps
        remaining = iter(values)
        try:
            for value, context.record_timestamp in zip(remaining, times, strict=True):
                invoke(transaction, value, context)
        except BaseException as error:
            note_record(error, values, remaining)
            raise

    def write_watermark(self, watermark: int) -> None:
        self._record.watermark = watermark

    def prepare_commit(self) -> Sequence[bytes]:
        if not self._is_open:
            return ()
        self._function.pre_commit(self._open)
        committable = pickled([self._open, self._logged])
        self._open, self._is_open = None, False
        return (committable,)

    def close(self) -> None:
        if self._is_open:
            with contextlib.suppress(Exception):  # if this fails, the committer aborts it later
                self._function.abort(self._open)
            self._is_open = False
        self._function.close()

    def _begin(self) -> None:
        if self._writer is None:
            raise RuntimeError(_UNKNOWN)
        self._open = self._function.begin_transaction()
        self._is_open = True
        if self._writer.log is not None:
            self._logged = self._writer.log.write(self._writer, 0, pickled([self._open]))


class _TransactionCommitter(Committer):
    def __init__(self, function: TwoPhaseCommitSinkFunction[Any]) -> None:
        self._function = function
        self._log: SinkLog | None = None

    def open(self, context: CommitterContext) -> None:
        self._log = context.log

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in sorted(committed, key=lambda one: (one.epoch, one.subtask)):
            act = self._function.recover_and_commit if part.again else self._function.commit
            for committable in part.committables:
                transaction, name = unpickle(committable)
                act(transaction)
                if self._log is not None and name:
                    self._log.delete([name])

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._log is None:
            return
        in_use = [unpickle(committable)[1] for committable in names_in_use]
        for name in self._log.leftovers(in_use, lineage):
            (transaction,) = unpickle(self._log.read(name))
            self._function.recover_and_abort(transaction)
            self._log.delete([name])
