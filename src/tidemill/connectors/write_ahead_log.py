"""The write-ahead log: an exactly-once sink for systems whose transactions end with the process that began them.

Most systems with transactions do not let another process commit what a writer has prepared, and cannot keep a prepared
transaction over a crash. So the records of an epoch go to a log first:

1. writers encode batches of records and put them into the log; what is small rides in the committable itself;
2. the committable names the files with their checksums, and who wrote them: the manifest makes that durable;
3. after the manifest, the committer reads the log and hands it to a :class:`Destination`, on workers if it is much;
4. the files are deleted. Those of attempts that never counted go when the next lineage opens, or the job ends.

Step 3 is repeated after a crash, and a driver that was taken over may still be at it when its successor has delivered
later epochs. A destination is safe against both if it keeps a :class:`Mark` of what it got last, and in one atomic step
looks at the mark, takes the records and moves the mark on::

    if not delivery.covered_by(stored mark):      # in one transaction,
        write all of delivery.batches()           # per (job, operator, subtask)
        store delivery.mark

A transaction alone is not enough where two of them can look at the same mark before either has moved it: lock the mark
first, or have the second one fail.

Order is kept: one subtask's deliveries come epoch by epoch, and a key's records are one subtask's.
"""

from __future__ import annotations

import abc
import hashlib
import json
import pickle
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import cloudpickle

from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkLog, SinkWriter, WriterContext
from tidemill.errors import CheckpointError, CorruptFileError

__all__ = ["Delivery", "Destination", "DestinationContext", "LogCommitter", "LogWriter", "Mark", "WriteAheadLogSink"]

_VERSION: Final = 1
#: What is smaller rides in the committable, and so in the manifest: a file costs more than so many bytes there.
_INLINE: Final = 64 << 10
#: A writer holds no more than about this; a file is read back whole.
_PART: Final = 8 << 20
_length: Final = struct.Struct("!I")


@dataclass(frozen=True)
class Mark:
    """How far the results of one subtask have been delivered, as a destination stores it: a text.

    >>> stored = Mark("000000000001-a", "000000000004-b", 17).to_text()
    >>> Mark.from_text(stored)
    Mark(history='000000000001-a', lineage='000000000004-b', epoch=17)
    """

    history: str
    lineage: str
    epoch: int

    def covers(self, other: Mark) -> bool:
        """Whether the results of ``other`` were delivered when this mark was stored.

        Within a history a later lineage is further than any epoch of an earlier one, whatever its number: a job may
        have been taken back to an earlier checkpoint on purpose. Marks of another history say nothing about this one.
        """
        return self.history == other.history and (self.lineage, self.epoch) >= (other.lineage, other.epoch)

    def to_text(self) -> str:
        """The mark as JSON: ASCII, less than 200 characters."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Mark:
        """The mark that a destination has stored."""
        fields = json.loads(text)
        return cls(str(fields["history"]), str(fields["lineage"]), int(fields["epoch"]))


@dataclass(frozen=True)
class Delivery:
    """What one subtask wrote in one committed epoch.

    A destination keeps one :attr:`mark` for each (``job_id``, ``operator_uid``, ``subtask``). With ``again`` a driver
    that has just started does not know whether its predecessor delivered it; without, it may still be that a successor
    did. ``written_at`` is the wall clock, in ms, when the writer was done; ``size`` the number of bytes.
    """

    job_id: str
    operator_uid: str
    subtask: int
    mark: Mark
    again: bool
    written_at: int
    size: int
    _parts: Sequence[Callable[[], bytes]]

    @property
    def epoch(self) -> int:
        """The epoch whose results these are."""
        return self.mark.epoch

    def covered_by(self, stored: Mark | None) -> bool:
        """Whether a destination that has stored this mark, or none, has these records already."""
        return stored is not None and stored.covers(self.mark)

    def batches(self) -> Iterator[bytes]:
        """The batches in the order they were written, as the sink encoded them; may be read more than once.

        At most one file of the log is in memory. Raises :class:`~tidemill.errors.CorruptFileError` for one that is not
        what was written.
        """
        for part in self._parts:
            yield from _unframed(part())


@dataclass(frozen=True)
class DestinationContext:
    """Whose results are delivered."""

    job_id: str
    operator_uid: str


class Destination(abc.ABC):
    """Where the results go. Created by the sink wherever commits run, and kept open there between epochs.

    One destination gets one delivery at a time. Another process may have one open for the same subtask: the driver for
    small epochs and a worker for large ones, or a driver that does not know yet that it was taken over.
    """

    def open(self, context: DestinationContext) -> None:
        """Called once, before the first delivery."""

    @abc.abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Take all records of a delivery, or none, and only if they are not there yet; see the module's rule.

        What it raises fails the job, and the delivery comes again, with ``again``, after the restart.
        """

    def close(self) -> None:
        """Release resources."""


class WriteAheadLogSink(Sink):
    """Base of sinks that deliver an epoch's records after it is committed, exactly once.

    Holds plain configuration. A sink says how batches become bytes, and where they go::

        class LinesToTable(WriteAheadLogSink):
            def encode(self, values, timestamps):
                return "\\n".join(values).encode()

            def create_destination(self):
                return Table()  # its deliver() inserts the lines and the mark in one transaction
    """

    guarantee = "exactly-once"
    pickled_committables = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "encode" in cls.__dict__ and "pickled_committables" not in cls.__dict__:
            cls.pickled_committables = False

    @abc.abstractmethod
    def create_destination(self) -> Destination:
        """Where the results go."""

    def encode(self, values: list[Any], timestamps: list[int] | None) -> bytes:
        """One batch of records as bytes, for the destination to decode. By default ``values`` are pickled.

        A sink with an encoding of its own that pickles, too, sets ``pickled_committables``.
        """
        return pickled(values)

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """A writer that puts encoded batches into the log."""
        return LogWriter(self.encode)

    def create_committer(self) -> Committer:
        """A committer that hands them to the destination."""
        return LogCommitter(self.create_destination())


def pickled(values: list[Any]) -> bytes:
    """Values as bytes; classes of the user's script itself are known on a worker by value only."""
    try:
        return pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        data: bytes = cloudpickle.dumps(values)
        return data


class LogWriter(SinkWriter):
    """Writes encoded batches to the log. Sinks whose encoding needs to be opened or closed may extend it."""

    def __init__(
        self, encode: Callable[[list[Any], list[int] | None], bytes], *, inline: int = _INLINE, part: int = _PART
    ) -> None:
        """Less than ``inline`` bytes ride in the committable; a file has about ``part`` bytes."""
        self._encode = encode
        self._inline = inline
        self._part = part
        self._context: WriterContext | None = None
        self._reset()

    def _reset(self) -> None:
        self._frames: list[bytes] = []
        self._buffered = 0
        self._parts: list[dict[str, Any]] = []

    def begin_epoch(self, context: WriterContext) -> None:
        self._context = context
        self._reset()

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        data = self._encode(values, timestamps)
        self._frames += (_length.pack(len(data)), data)
        self._buffered += len(data) + _length.size
        if self._buffered >= self._part:
            self._store()

    def prepare_commit(self) -> Sequence[bytes]:
        if not self._frames and not self._parts:
            return ()
        context, log = self._place()
        if log is not None and (self._parts or self._buffered >= self._inline):
            self._store()
        header = {
            "version": _VERSION,
            "job": context.job_id,
            "operator": context.operator_uid,
            "history": context.history,
            "lineage": context.lineage,
            "epoch": context.epoch,
            "subtask": context.subtask,
            "written": time.time_ns() // 1_000_000,
            "parts": self._parts,
        }
        committable = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(self._frames)
        self._reset()
        return (committable,)

    def close(self) -> None:
        self._reset()

    def _place(self) -> tuple[WriterContext, SinkLog | None]:
        if self._context is None:
            raise RuntimeError("begin_epoch() comes before the first record")
        return self._context, self._context.log

    def _store(self) -> None:
        context, log = self._place()
        if log is None or not self._frames:
            return
        data = b"".join(self._frames)
        name = log.write(context, len(self._parts), data)
        self._parts.append({"name": name, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        self._frames, self._buffered = [], 0


class LogCommitter(Committer):
    """Delivers, then deletes the files: one that is gone after a restart has been delivered."""

    on_workers = True

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._log: SinkLog | None = None

    def open(self, context: CommitterContext) -> None:
        self._log = context.log
        self._destination.open(DestinationContext(context.job_id, context.operator_uid))

    def commit(self, committed: Sequence[Committed]) -> None:
        for part in sorted(committed, key=lambda one: (one.epoch, one.subtask)):
            for committable in part.committables:
                header, inline = take_apart(committable)
                names = [file["name"] for file in header["parts"]]
                if part.again and not all(map(self._files().exists, names)):
                    self._delete(names)  # the deletion was begun, which only who had delivered all of it did
                    continue
                self._destination.deliver(self._delivery(header, inline, again=part.again))
                self._delete(names)

    def weight(self, committed: Committed) -> int:
        return sum(
            len(committable) + sum(file["length"] for file in take_apart(committable)[0]["parts"])
            for committable in committed.committables
        )

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._log is None:
            return
        in_use = [file["name"] for committable in names_in_use for file in take_apart(committable)[0]["parts"]]
        self._log.delete(self._log.leftovers(in_use, lineage))

    def close(self) -> None:
        self._destination.close()

    def _files(self) -> SinkLog:
        if self._log is None:
            raise RuntimeError("a committer of a write-ahead log must be opened with the log")
        return self._log

    def _delete(self, names: Sequence[str]) -> None:
        if names:
            self._files().delete(names)

    def _delivery(self, header: dict[str, Any], inline: bytes, *, again: bool) -> Delivery:
        parts: list[Callable[[], bytes]] = [self._reader(file) for file in header["parts"]]
        if inline:
            parts.append(lambda: inline)
        return Delivery(
            job_id=header["job"],
            operator_uid=header["operator"],
            subtask=header["subtask"],
            mark=Mark(header["history"], header["lineage"], header["epoch"]),
            again=again,
            written_at=header["written"],
            size=len(inline) + sum(file["length"] for file in header["parts"]),
            _parts=parts,
        )

    def _reader(self, file: dict[str, Any]) -> Callable[[], bytes]:
        log = self._files()

        def read() -> bytes:
            data = log.read(file["name"])
            if len(data) != file["length"] or hashlib.sha256(data).hexdigest() != file["sha256"]:
                raise CorruptFileError(
                    f"{file['name']}, a sink's write-ahead log, is corrupt: its {len(data)} bytes are not the "
                    f"{file['length']} that were written"
                )
            return data

        return read


def take_apart(committable: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, inline = committable.partition(b"\n")
    header: dict[str, Any] = json.loads(line)
    if header.get("version") != _VERSION:
        raise CheckpointError(f"a write-ahead log of version {header.get('version')} cannot be read: {header}")
    return header, inline


def _unframed(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = _length.unpack_from(data, at)
        at += _length.size
        yield data[at : at + length]
        at += length
