"""Every exception Tidemill raises on purpose, in one hierarchy.

An error says what went wrong, where (operator, uid, subtask, epoch, key, file) and what to do about it.
Catch :class:`TidemillError` to catch them all.
"""

from __future__ import annotations


class TidemillError(Exception):
    """Base of all errors raised by Tidemill itself."""


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


class UserCodeError(TidemillError):
    """A user function raised. The user's own traceback is the first thing in the message."""


class CheckpointError(TidemillError):
    """Checkpoint data cannot be written or read."""


class CorruptFileError(CheckpointError):
    """A durable file does not match its checksum or its format; the message names file and offset."""


class LocalStateError(CheckpointError):
    """State on a worker's local disk is damaged or cannot be written. What is committed is safe: it is loaded again."""


class CheckpointOwnershipError(CheckpointError):
    """The checkpoint directory belongs to another job."""


class FencedError(TidemillError):
    """Another driver has taken this job over; this one must stop and may commit nothing."""


class JobExecutionError(TidemillError):
    """The job ended in failure after its restart strategy gave up."""


class JobCancelledError(TidemillError):
    """The job was cancelled."""
