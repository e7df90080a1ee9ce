"""Messages that the driver has received for the workers, which deserialize them.

For systems that hand out messages, or count them, so that only one process at a time can know where an epoch ends: the
driver receives the messages of an epoch, and they travel to the workers in the splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

from tidemill.common.calls import call_each
from tidemill.common.serialization import DeserializationSchema
from tidemill.connectors.sources import RecordBatch
from tidemill.errors import SerializationError

__all__ = ["Messages", "checked_schema"]

#: The number of bytes of a message that an error shows.
_SHOWN_BYTES: Final = 200


@dataclass(frozen=True)
class Messages:
    """The payload of a split: messages in their order. ``place`` describes where they come from, for errors."""

    bodies: Sequence[bytes]
    timestamps: Sequence[int] | None
    place: str

    def decode(self, schema: DeserializationSchema[Any]) -> RecordBatch:
        """Return the records; messages for which the schema returns None are skipped.

        Raises :class:`SerializationError` with a message that cannot be read.
        """

        def failed(error: BaseException, position: int) -> SerializationError:
            body = self.bodies[position]
            more = f" ... ({len(body):,} bytes)" if len(body) > _SHOWN_BYTES else ""
            return SerializationError(
                f"a message of {self.place} cannot be read: {type(error).__name__}: {error}\n"
                f"  its value: {body[:_SHOWN_BYTES]!r}{more}"
            )

        values = call_each(schema.deserialize, self.bodies, failed)
        timestamps = None if self.timestamps is None else list(self.timestamps)
        kept = [value is not None for value in values]
        if all(kept):
            return RecordBatch(values, timestamps)
        return RecordBatch(
            list(compress(values, kept)), None if timestamps is None else list(compress(timestamps, kept))
        )


def checked_schema(schema: Any) -> DeserializationSchema[Any]:
    """Return the schema of a source. Raises :class:`TypeError` if it is something else."""
    if not isinstance(schema, DeserializationSchema):
        raise TypeError(f"a DeserializationSchema is needed, not {type(schema).__name__}")
    return schema
