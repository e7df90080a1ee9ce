"""The exceptions that Tidemill raises, in one hierarchy.

An error message states what went wrong, where (operator, uid, subtask, epoch, key, file) and what to do about it.
Catch :class:`TidemillError` to catch them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FailureSite:
    """Where in a job something failed, as far as it is known. Keys and records are shortened text.

    ``exception`` is the class of the exception. ``subtask`` starts at 0.
    """

    operator: str = ""
    uid: str = ""
    subtask: int | None = None
    epoch: int | None = None
    exception: str = ""
    key: str | None = None
    record: str | None = None

    def where(self) -> str:
        """A description of the place."""
        named = f"operator {self.operator!r}" if self.operator else "an operator" if self.uid else ""
        parts = [
            f"{named} (uid {self.uid})" if self.uid else named,
            "" if self.subtask is None else f"subtask {self.subtask + 1}",
            "" if self.epoch is None else f"epoch {self.epoch}",
        ]
        return ", ".join(filter(None, parts))


class TidemillError(Exception):
    """Base class of all errors raised by Tidemill itself."""

    #: Where in the job the error occurred, if it is known.
    site: FailureSite | None = None


def without_engine_frames(error: TidemillError) -> TidemillError:
    """The error without its stack and its causes, to be raised to the program: ``raise without_engine_frames(error)``.

    Its message says what happened, and has the traceback of a user function. The stack would be that of the engine.
    """
    error.__cause__ = None
    error.__suppress_context__ = True
    return error.with_traceback(None)


class ConfigurationError(TidemillError):
    """The value of a configuration key cannot be used, or the key is unknown and the configuration is strict."""


class ConfigurationWarning(UserWarning):
    """A configuration key is unknown: it has no effect, unless the program itself reads it."""


class GraphError(TidemillError):
    """The program is not a valid dataflow. The message contains the operator and the line of the program."""


class SerializationError(TidemillError):
    """A function or value cannot be serialized or deserialized."""


class TypeMismatchError(TidemillError):
    """A value does not match the type declared for it."""


class InvalidKeyError(TidemillError):
    """A key is not hashable, is mutable, or does not have the same hash in every process."""


class StateError(TidemillError):
    """State was used incorrectly: without a current key, after close, or with another type."""


class StateMigrationError(StateError):
    """Stored state cannot be converted to the state that the program declares. No value of it has been read."""


class UserCodeError(TidemillError):
    """A user function raised. The message begins with the traceback of the user's code."""


class ConnectorError(TidemillError):
    """An external system, such as a database or broker, rejected a request or did not respond.

    The message contains its address.
    """


class CheckpointError(TidemillError):
    """Checkpoint data cannot be written or read."""


class CorruptFileError(CheckpointError):
    """A durable file does not match its checksum or format. The message contains the file and offset."""


class NewerFormatError(CheckpointError):
    """A durable file was written by a newer version of Tidemill in a format that this version cannot read."""


class NoSavepointError(CheckpointError):
    """The savepoint, or the checkpoint of another job, from which a job should start does not exist (anymore)."""


class JobFinishedError(CheckpointError):
    """The job whose savepoint or checkpoint should be resumed has finished: there is nothing left to process."""


class UntrustedStateError(CheckpointError):
    """State from outside the job's own directories is pickled, which is not allowed. Nothing of it was read."""


class LocalStateError(CheckpointError):
    """State on a worker's local disk is corrupt or cannot be written. Committed state is safe and is loaded again."""


class CheckpointOwnershipError(CheckpointError):
    """The checkpoint directory belongs to another job."""


class LostInputError(TidemillError):
    """Input that a job has not read yet no longer exists. The message states what is missing."""


class FencedError(TidemillError):
    """Another driver has taken over this job. This driver must stop and must not commit anything."""


class JobExecutionError(TidemillError):
    """The job ended in failure after its restart strategy gave up."""


class EngineLostError(JobExecutionError):
    """This driver has lost the engine that runs its tasks. The job resumes when another driver is started."""


class JobCancelledError(TidemillError):
    """The job was cancelled."""


#: Errors that a restart cannot resolve: something must be fixed first.
LASTING: Final = (
    ConfigurationError,
    GraphError,
    StateError,
    StateMigrationError,
    CheckpointOwnershipError,
    CorruptFileError,
    NewerFormatError,
    NoSavepointError,
    JobFinishedError,
    UntrustedStateError,
    LostInputError,
)
