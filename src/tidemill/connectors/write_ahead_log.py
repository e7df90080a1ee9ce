"""The write-ahead log: an exactly-once sink for systems whose transactions end with the process that began them.

Most transactional systems do not let another process commit what a writer has prepared, and do not keep a prepared
transaction after a crash. The records of an epoch are therefore written to a log first:

1. Writers encode batches of records and write them to the log. Small batches are stored in the committable itself.
2. The committable contains the names and checksums of the files, and identifies the writer. The manifest makes it
   durable.
3. After the manifest is durable, the committer reads the log and passes it to a :class:`Destination`. Large commits run
   on workers.
4. The files are deleted. Files of attempts that were never committed are deleted when the next lineage opens, or when
   the job ends.

Step 3 is repeated after a crash, and a superseded driver may still execute it after its successor has delivered later
epochs. A destination handles both cases if it stores a :class:`Mark` of its last delivery, and reads the mark, writes
the records and updates the mark in one atomic step::

    if not delivery.covered_by(stored mark):      # in one transaction,
        write all of delivery.batches()           # per (job, operator, subtask)
        store delivery.mark

A transaction alone is not sufficient if two transactions can read the same mark before either of them updates it: lock
the mark first, or make the second transaction fail.

Order is preserved: the deliveries of a subtask are made epoch by epoch, and all records of a key belong to one subtask.
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

from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkLog, SinkWriter, WriterContext
from tidemill.datastream.functions.pickling import pickled_by_value
from tidemill.errors import CheckpointError, CorruptFileError

__all__ = ["Delivery", "Destination", "DestinationContext", "LogCommitter", "LogWriter", "Mark", "WriteAheadLogSink"]

_VERSION: Final = 1
#: Less data than this is stored in the committable, and so in the manifest, where it costs less than a separate file.
_INLINE: Final = 64 << 10
#: The approximate number of bytes that a writer buffers, and the size of a file, which is read back as a whole.
_PART: Final = 8 << 20
_length: Final = struct.Struct("!I")


@dataclass(frozen=True)
class Mark:
    """How far the results of one subtask have been delivered. A destination stores it as a string.

    >>> stored = Mark("000000000001-a", "000000000004-b", 17).to_text()
    >>> Mark.from_text(stored)
    Mark(history='000000000001-a', lineage='000000000004-b', epoch=17)
    """

    history: str
    lineage: str
    epoch: int

    def covers(self, other: Mark) -> bool:
        """Whether the results of ``other`` were delivered when this mark was stored.

        Within a history, every epoch of a later lineage comes after every epoch of an earlier one, regardless of its
        number: the user may have reset the job to an earlier checkpoint. Marks of different histories are unrelated.
        """
        return self.history == other.history and (self.lineage, self.epoch) >= (other.lineage, other.epoch)

    def to_text(self) -> str:
        """Return the mark as JSON: ASCII, less than 200 characters."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Mark:
        """Parse a mark that a destination has stored."""
        fields = json.loads(text)
        return cls(str(fields["history"]), str(fields["lineage"]), int(fields["epoch"]))


@dataclass(frozen=True)
class Delivery:
    """The output of one subtask in one committed epoch.

    A destination stores one :attr:`mark` for each (``job_id``, ``operator_uid``, ``subtask``). ``again`` is set by a
    driver that has just started and does not know whether its predecessor made this delivery. Even without it, a
    successor may already have made it. ``written_at`` is the wall clock time, in ms, at which the writer finished;
    ``size`` is the number of bytes.
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
        """The epoch of the results."""
        return self.mark.epoch

    def covered_by(self, stored: Mark | None) -> bool:
        """Whether a destination that has stored this mark (None: no mark) already has these records."""
        return stored is not None and stored.covers(self.mark)

    def batches(self) -> Iterator[bytes]:
        """Iterate over the batches in the order they were written, as the sink encoded them; can be called repeatedly.

        At most one file of the log is in memory at a time. Raises :class:`~tidemill.errors.CorruptFileError` for a file
        whose contents differ from what was written.
        """
        for part in self._parts:
            yield from _unframed(part())


@dataclass(frozen=True)
class DestinationContext:
    """Identifies the sink whose results are delivered."""

    job_id: str
    operator_uid: str


class Destination(abc.ABC):
    """The system that receives the results. Created in each process that runs commits, and kept open between epochs.

    A destination receives one delivery at a time. Another process may have a destination open for the same subtask: the
    driver for small epochs and a worker for large ones, or a superseded driver that does not know it yet.
    """

    def open(self, context: DestinationContext) -> None:
        """Called once, before the first delivery."""

    @abc.abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Write all records of a delivery atomically, unless they were written before; see the module docstring.

        An exception fails the job. After the restart the delivery is repeated with ``again`` set.
        """

    def close(self) -> None:
        """Release resources."""


class WriteAheadLogSink(Sink):
    """Base class of sinks that deliver an epoch's records after it is committed, exactly once.

    A subclass contains only plain configuration. It defines how batches are encoded, and where they are delivered::

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
        """Create the destination of the results."""

    def encode(self, values: list[Any], timestamps: list[int] | None) -> bytes:
        """Encode one batch of records, which the destination decodes. By default ``values`` are pickled.

        A sink that overrides this and also uses pickle must set ``pickled_committables``.
        """
        return pickled(values)

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that writes encoded batches to the log."""
        return LogWriter(self.encode)

    def create_committer(self) -> Committer:
        """Create a committer that passes the batches to the destination."""
        return LogCommitter(self.create_destination())


def pickled(values: list[Any]) -> bytes:
    """Pickle values; classes defined in the user's script can only be pickled by value."""
    try:
        return pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return pickled_by_value(values)


class LogWriter(SinkWriter):
    """Writes encoded batches to the log. Sinks whose encoder must be opened or closed can extend it."""

    def __init__(
        self, encode: Callable[[list[Any], list[int] | None], bytes], *, inline: int = _INLINE, part: int = _PART
    ) -> None:
        """Store less than ``inline`` bytes in the committable itself; a file has about ``part`` bytes."""
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
            raise RuntimeError("begin_epoch() must be called before the first record")
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
    """Delivers, then deletes the files: a file that does not exist after a restart has been delivered."""

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
                header, inline = parse_committable(committable)
                names = [file["name"] for file in header["parts"]]
                if part.again and not all(map(self._files().exists, names)):
                    self._delete(names)  # deletion starts only after everything has been delivered
                    continue
                self._destination.deliver(self._delivery(header, inline, again=part.again))
                self._delete(names)

    def weight(self, committed: Committed) -> int:
        return sum(
            len(committable) + sum(file["length"] for file in parse_committable(committable)[0]["parts"])
            for committable in committed.committables
        )

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._log is None:
            return
        in_use = [file["name"] for committable in names_in_use for file in parse_committable(committable)[0]["parts"]]
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
                    f"{file['name']}, a file of a sink's write-ahead log, is corrupt: its checksum is wrong. It has "
                    f"{len(data)} bytes; {file['length']} bytes were written"
                )
            return data

        return read


def parse_committable(committable: bytes) -> tuple[dict[str, Any], bytes]:
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
