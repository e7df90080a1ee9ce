"""Every exception Tidemill raises on purpose, in one hierarchy.

An error says what went wrong, where (operator, uid, subtask, epoch, key, file) and what to do about it.
Catch :class:`TidemillError` to catch them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FailureSite:
    """Where in a job something failed, as far as it is known; a key or record is shown as text, and shortened.

    ``exception`` is the class of what was raised; ``subtask`` counts from 0.
    """

    operator: str = ""
    uid: str = ""
    subtask: int | None = None
    epoch: int | None = None
    exception: str = ""
    key: str | None = None
    record: str | None = None

    def where(self) -> str:
        """The place in words."""
        named = f"operator {self.operator!r}" if self.operator else "an operator" if self.uid else ""
        parts = [
            f"{named} (uid {self.uid})" if self.uid else named,
            "" if self.subtask is None else f"subtask {self.subtask + 1}",
            "" if self.epoch is None else f"epoch {self.epoch}",
        ]
        return ", ".join(filter(None, parts))


class TidemillError(Exception):
    """Base of all errors raised by Tidemill itself."""

    #: Where in the job it happened, if the job knows.
    site: FailureSite | None = None


class ConfigurationError(TidemillError):
    """A configuration key is unknown, or its value cannot be used."""


class GraphError(TidemillError):
    """The program does not form a valid dataflow; the message names the operator and the user's line."""


class SerializationError(TidemillError):
    """A function or value cannot be turned into bytes, or bytes cannot be turned back."""


class TypeMismatchError(TidemillError):
    """A value does not match the type declared for it."""


class InvalidKeyError(TidemillError):
    """A key is unhashable, mutable, or has no hash that is equal in every process."""


class StateError(TidemillError):
    """State was used in a way that cannot work: outside a key, after close, with another type."""


class StateMigrationError(StateError):
    """What is stored of a state cannot become what the program declares; no value of it has been read."""


class UserCodeError(TidemillError):
    """A user function raised. The user's own traceback is the first thing in the message."""


class ConnectorError(TidemillError):
    """A system outside, a database or broker, refused something or did not answer; the message has its address."""


class CheckpointError(TidemillError):
    """Checkpoint data cannot be written or read."""


class CorruptFileError(CheckpointError):
    """A durable file does not match its checksum or its format; the message names file and offset."""


class NewerFormatError(CheckpointError):
    """A durable file was written by a newer version of Tidemill, in a format that this one does not read."""


class NoSavepointError(CheckpointError):
    """What a job was to start from is not there, or not any more: a savepoint, or a checkpoint of another job."""


class JobFinishedError(CheckpointError):
    """What a job was to start from has come to its end: there is nothing to go on with."""


class UntrustedStateError(CheckpointError):
    """State from elsewhere is pickled, and the job may not unpickle it; nothing of it was read."""


class LocalStateError(CheckpointError):
    """State on a worker's local disk is damaged or cannot be written. What is committed is safe: it is loaded again."""


class CheckpointOwnershipError(CheckpointError):
    """The checkpoint directory belongs to another job."""


class LostInputError(TidemillError):
    """Input that a job has still to read is not there any more; the message says what is missing."""


class FencedError(TidemillError):
    """Another driver has taken this job over; this one must stop and may commit nothing."""


class JobExecutionError(TidemillError):
    """The job ended in failure after its restart strategy gave up."""


class EngineLostError(JobExecutionError):
    """What runs the tasks is gone for this driver; the job goes on when another driver is started."""


class JobCancelledError(TidemillError):
    """The job was cancelled."""


#: Errors that are the same after a restart: something must be mended first.
LASTING: Final = (
    ConfigurationError,
    GraphError,
    StateMigrationError,
    CheckpointOwnershipError,
    CorruptFileError,
    NewerFormatError,
    NoSavepointError,
    JobFinishedError,
    UntrustedStateError,
    LostInputError,
)
