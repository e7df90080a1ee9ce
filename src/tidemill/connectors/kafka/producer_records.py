"""Converts records of a stream to records of a topic, a batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from tidemill.common.calls import call_each
from tidemill.common.serialization import SerializationSchema
from tidemill.errors import SerializationError

__all__ = [
    "KafkaProducerRecord",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSinkContext",
    "KafkaTopicSelector",
]

T = TypeVar("T")
Headers = Sequence[tuple[str, bytes | None]]

_SHOWN: Final = 200
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TOPIC: Final = b"topic"


class KafkaProducerRecord(NamedTuple):
    """A record to be written to a topic.

    Without a partition, it is chosen by the key or, without a key, at random. Without a timestamp (ms), the time of
    writing is used. A record without a value marks the deletion of its key.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


class KafkaSinkContext(Protocol):
    """The context of a serialization schema."""

    subtask: int
    parallelism: int

    def partitions_of(self, topic: str) -> list[int]:
        """Return the current partitions of a topic."""
        ...


class KafkaTopicSelector(ABC):
    """Selects the topic of a record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of one record."""


#: Chooses a partition from the record, its key and value as bytes, the topic, and the partitions of the topic.
Partitioner = Callable[[Any, bytes | None, bytes | None, str, list[int]], int]


class KafkaRecordSerializationSchema(ABC, Generic[T]):
    """Converts a record of the stream to a record of a topic. Usually created with :meth:`builder`.

    A subclass controls all fields of the record, including headers:

    >>> class Traced(KafkaRecordSerializationSchema[tuple[str, str]]):
    ...     def serialize(self, element, timestamp):
    ...         trace, text = element
    ...         return KafkaProducerRecord("texts", text.encode(), headers=[("trace", trace.encode())])
    >>> Traced().serialize(("7f", "hello"), None).headers
    [('trace', b'7f')]
    """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Start building a schema from a topic, a value serializer and, optionally, a key serializer."""
        return KafkaRecordSerializationSchemaBuilder()

    def open(self, context: KafkaSinkContext) -> None:
        """Called once on each subtask, before the first record."""

    @abstractmethod
    def serialize(self, element: T, timestamp: int | None) -> KafkaProducerRecord | None:
        """Return the record for Kafka, or None to skip it. ``timestamp`` is the event time in ms, if there is one."""

    def fixed_topic(self) -> str | None:
        """Return the topic if all records are written to the same one, otherwise None."""
        return None

    def columns(self, values: list[T], timestamps: list[int] | None) -> ProducerColumns:
        """Serialize a whole batch, in order."""
        times = repeat(-1, len(values)) if timestamps is None else timestamps
        found = _mapped(self.serialize, values, [time if time >= 0 else None for time in times])
        return ProducerColumns.of([record for record in found if record is not None])


class KafkaRecordSerializationSchemaBuilder:
    """Builds a schema; a topic and a value serializer are required.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> schema = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic_selector(lambda word: "long-words" if len(word) > 5 else "words")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> schema.serialize("streaming", None)
    KafkaProducerRecord(topic='long-words', value=b'streaming', key=None, partition=None, timestamp=None, headers=())
    """

    def __init__(self) -> None:
        self._topic: str | None = None
        self._selector: KafkaTopicSelector | Callable[[Any], str] | None = None
        self._key: SerializationSchema[Any] | None = None
        self._value: SerializationSchema[Any] | None = None
        self._partitioner: Partitioner | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to this topic."""
        if not topic:
            raise ValueError("the topic must not be empty")
        self._topic, self._selector = topic, None
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Write each record to the topic that the selector returns."""
        if not isinstance(topic_selector, KafkaTopicSelector) and not callable(topic_selector):
            raise TypeError("topic_selector must be a KafkaTopicSelector or a function")
        self._topic, self._selector = None, topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema[Any]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the serializer of the key; without it records have no keys."""
        self._key = _schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema[Any]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the serializer of the value."""
        self._value = _schema(value_serialization_schema)
        return self

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Set the partitioner: ``partitioner(record, key, value, topic, partitions)`` returns one of ``partitions``."""
        if not callable(partitioner):
            raise TypeError("the partitioner must be a function")
        self._partitioner = partitioner
        return self

    def build(self) -> KafkaRecordSerializationSchema[Any]:
        """Build the schema."""
        if self._value is None:
            raise ValueError("a schema for Kafka records needs set_value_serialization_schema()")
        if self._topic is None and self._selector is None:
            raise ValueError("a schema for Kafka records needs set_topic() or set_topic_selector()")
        return _BuiltSchema(self._topic, self._selector, self._key, self._value, self._partitioner)


class _BuiltSchema(KafkaRecordSerializationSchema[Any]):
    def __init__(
        self,
        topic: str | None,
        selector: KafkaTopicSelector | Callable[[Any], str] | None,
        key: SerializationSchema[Any] | None,
        value: SerializationSchema[Any],
        partitioner: Partitioner | None,
    ) -> None:
        self._topic = topic
        self._selector = selector
        self._key = key
        self._value = value
        self._partitioner = partitioner
        self._context: KafkaSinkContext | None = None

    def open(self, context: KafkaSinkContext) -> None:
        self._context = context

    def fixed_topic(self) -> str | None:
        return self._topic

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord:
        columns = self.columns([element], None if timestamp is None else [timestamp])
        return next(iter(columns.records()))

    def columns(self, values: list[Any], timestamps: list[int] | None) -> ProducerColumns:
        topic: str | list[str]
        if self._topic is not None:
            topic = self._topic
        else:
            selector = self._selector
            choose = selector.apply if isinstance(selector, KafkaTopicSelector) else selector
            topic = _mapped(choose, values)
        return ProducerColumns(
            topic,
            data := _mapped(self._value.serialize, values),
            keys := None if self._key is None else _mapped(self._key.serialize, values),
            None if self._partitioner is None else self._partitions(values, keys, data, topic),
            timestamps,
        )

    def _partitions(self, values: list[Any], keys: list[Any] | None, data: list[Any], topic: str | list[str]) -> Any:
        context, partitioner = self._context, self._partitioner
        if context is None or partitioner is None:
            raise RuntimeError("open() must be called before the first record")
        topics = [topic] * len(values) if isinstance(topic, str) else topic
        known = {name: context.partitions_of(name) for name in set(topics)}
        found = [
            partitioner(value, key, datum, name, known[name])
            for value, key, datum, name in zip(values, keys or repeat(None), data, topics)  # noqa: B905 - one is endless
        ]
        for partition, name in zip(found, topics, strict=True):
            if partition not in known[name]:
                raise ValueError(f"the partitioner chose {partition!r}; topic {name!r} has {known[name]}")
        return found


@dataclass
class ProducerColumns:
    """A batch of records for Kafka: one list per field, all in the same order; None if no record has that field.

    Negative timestamps mean that a record has none.
    """

    topic: str | list[str]
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    partitions: list[int | None] | None = None
    timestamps: list[int] | None = None
    headers: list[Headers] | None = None

    @classmethod
    def of(cls, records: list[KafkaProducerRecord]) -> ProducerColumns:
        """Create the columns of a list of records."""
        topics, values, keys, partitions, timestamps, headers = (
            map(list, zip(*records, strict=True)) if records else ([] for _ in range(6))
        )
        times = [-1 if time is None else time for time in timestamps]
        return cls(
            topics[0] if len(set(topics)) == 1 else topics,
            values,
            keys if any(key is not None for key in keys) else None,
            partitions if any(partition is not None for partition in partitions) else None,
            times if any(time >= 0 for time in times) else None,
            headers if any(headers) else None,
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def first_topic(self) -> str:
        """The topic of the first record."""
        return self.topic if isinstance(self.topic, str) else self.topic[0]

    def records(self) -> Iterator[KafkaProducerRecord]:
        """Iterate over single records; for tests and small batches."""
        for topic, value, key, partition, time, headers in zip(*self._endless(), strict=False):
            yield KafkaProducerRecord(topic, value, key, partition, time if time and time >= 0 else None, headers or ())

    def _endless(self) -> tuple[Any, ...]:
        topics = repeat(self.topic) if isinstance(self.topic, str) else self.topic
        optional = (self.keys, self.partitions, self.timestamps, self.headers)
        return (topics, self.values, *(repeat(None) if column is None else column for column in optional))

    def produce(self, produce: Callable[..., None], make_room: Callable[[], object]) -> None:
        """Pass all records to a producer's ``produce``; while its queue is full, call ``make_room`` to wait.

        Arguments are positional, which takes half the time: topic, value, key, partition, two callbacks, timestamp,
        headers. Partition -1 means any, timestamp 0 means now.
        """
        count = len(self.values)
        columns: list[Any] = [
            repeat(self.topic, count) if isinstance(self.topic, str) else self.topic,
            self.values,
            repeat(None, count) if self.keys is None else self.keys,
        ]
        if self.partitions is not None or self.timestamps is not None or self.headers is not None:
            columns += [
                [-1 if each is None else each for each in self.partitions or repeat(None, count)],
                repeat(None, count),
                repeat(None, count),
                [max(each, 0) for each in self.timestamps or repeat(0, count)],
            ]
        if self.headers is not None:
            columns.append([list(each) or None for each in self.headers])
        for record in zip(*columns, strict=True):
            while True:
                try:
                    produce(*record)
                except BufferError:
                    make_room()
                else:
                    break

    def to_bytes(self) -> bytes:
        """Return the batch as an Arrow stream; a topic that all records share is stored in its metadata."""
        arrays = {"value": pa.array(self.values, pa.binary())}
        if not isinstance(self.topic, str):
            arrays["topic"] = pa.array(self.topic, pa.string())
        if self.keys is not None:
            arrays["key"] = pa.array(self.keys, pa.binary())
        if self.partitions is not None:
            arrays["partition"] = pa.array(self.partitions, pa.int32())
        if self.timestamps is not None:
            arrays["timestamp"] = pa.array(self.timestamps, pa.int64())
        if self.headers is not None:
            pairs = [[{"key": key, "value": value} for key, value in headers] for headers in self.headers]
            arrays["headers"] = pa.array(pairs, _HEADERS)
        batch = pa.record_batch(arrays)
        if isinstance(self.topic, str):
            batch = batch.replace_schema_metadata({_TOPIC: self.topic})
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.schema) as writer:
            writer.write_batch(batch)
        data: bytes = out.getvalue().to_pybytes()
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> ProducerColumns:
        """Read a batch that :meth:`to_bytes` has written."""
        batch = pa.ipc.open_stream(data).read_next_batch()
        found = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        headers = found.get("headers")
        shared = (batch.schema.metadata or {}).get(_TOPIC)
        return cls(
            found["topic"] if shared is None else shared.decode(),
            found["value"],
            found.get("key"),
            found.get("partition"),
            found.get("timestamp"),
            headers and [[(pair["key"], pair["value"]) for pair in pairs] for pairs in headers],
        )


def _schema(schema: SerializationSchema[Any]) -> SerializationSchema[Any]:
    if not isinstance(schema, SerializationSchema):
        raise TypeError(f"a SerializationSchema is needed, not {type(schema).__name__}")
    return schema


def _mapped(function: Any, values: list[Any], beside: Iterable[Any] | None = None) -> list[Any]:
    """Apply the function to all values; an error message contains the record."""

    def failed(error: BaseException, position: int) -> SerializationError:
        record = repr(values[position])[:_SHOWN]
        return SerializationError(
            f"a record cannot be serialized for Kafka: {type(error).__name__}: {error}\n  the record: {record}"
        )

    return call_each(function, values, failed, beside)
