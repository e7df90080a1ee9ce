"""Schemas that convert records to and from bytes for external systems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar

from tidemill.common.type_kinds.base import TypeInformation, WrapperTypeInfo
from tidemill.common.type_kinds.record_text import record_text
from tidemill.common.typeinfo import Types
from tidemill.errors import SerializationError
from tidemill.late_names import SCHEMAS, late

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
    "WrapperTypeInfo",
]

T = TypeVar("T")


class SerializationSchema(ABC, Generic[T]):
    """Serializes a record to bytes for a sink."""

    @abstractmethod
    def serialize(self, element: T) -> bytes:
        """Serializes one record."""


class DeserializationSchema(ABC, Generic[T]):
    """Deserializes the bytes from a source to a record."""

    @abstractmethod
    def deserialize(self, message: bytes) -> T | None:
        """Deserializes one message. Returns None to skip the message."""

    def is_end_of_stream(self, next_element: T) -> bool:
        """Whether the stream ends before this record."""
        return False

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema[str], DeserializationSchema[str]):
    """Converts text to and from bytes in a character set.

    >>> SimpleStringSchema().serialize("é")
    b'\\xc3\\xa9'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        "".encode(charset)  # fails early for an unknown character set
        self._charset = charset

    @property
    def charset(self) -> str:
        """The character set."""
        return self._charset

    def serialize(self, element: str) -> bytes:
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        try:
            return message.decode(self._charset)
        except UnicodeDecodeError as error:
            raise SerializationError(f"a message is not text in {self._charset}: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema[bytes], DeserializationSchema[bytes]):
    """Passes bytes through unchanged."""

    def serialize(self, element: bytes) -> bytes:
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema[Any]):
    """Serializes a row as the bytes in one of its fields."""

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index}")
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes:
        value = element[self._field_index]
        if not isinstance(value, (bytes, bytearray)):
            raise SerializationError(
                f"field {self._field_index} of {element!r} must be bytes, not {type(value).__name__}"
            )
        return bytes(value)


class Encoder(Generic[T]):
    """Writes records to a file one at a time.

    >>> import io
    >>> out = io.BytesIO()
    >>> Encoder.simple_string_encoder().encode(("to", 2), out)
    >>> out.getvalue()
    b'(to,2)\\n'
    """

    def __init__(self, to_bytes: Callable[[T], bytes]) -> None:
        self._to_bytes = to_bytes

    def encode(self, element: T, stream: BinaryIO) -> None:
        """Appends one record to ``stream``."""
        stream.write(self._to_bytes(element))

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder[Any]:
        """Writes each record as text in Flink's format, followed by a line feed.

        See :func:`tidemill.common.type_kinds.record_text.record_text` for the format.
        """
        return Encoder(_Line(charset_name))


class _Line:
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def __call__(self, element: Any) -> bytes:
        return f"{record_text(element)}\n".encode(self._charset)


class SimpleStringEncoder(Encoder[Any]):
    """The encoder of :meth:`Encoder.simple_string_encoder`, as PyFlink 1.12 names it."""

    def __init__(self, charset_name: str = "UTF-8") -> None:
        super().__init__(_Line(charset_name))


class BulkWriter(ABC, Generic[T]):
    """Writes many records to one file in a format that needs a final step, such as Parquet."""

    @abstractmethod
    def add_element(self, element: T) -> None:
        """Adds one record."""

    @abstractmethod
    def finish(self) -> None:
        """Writes the remaining data. Does not close the stream."""


class BulkWriterFactory(ABC, Generic[T]):
    """Creates a :class:`BulkWriter` for each file."""

    @abstractmethod
    def create(self, stream: BinaryIO) -> BulkWriter[T]:
        """Creates a writer to ``stream``."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return late(__name__, SCHEMAS, name)
