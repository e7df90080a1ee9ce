"""How records of a stream become records of a topic, a batch at a time."""

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

    Without a partition the key decides, and without a key chance; without a timestamp (ms) it is the time of writing.
    A record without a value says that its key is deleted.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


class KafkaSinkContext(Protocol):
    """What a schema may want to know."""

    subtask: int
    parallelism: int

    def partitions_of(self, topic: str) -> list[int]:
        """The partitions that a topic has by now."""
        ...


class KafkaTopicSelector(ABC):
    """Says which topic a record goes to."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic of one record."""


#: Chooses a partition: from the record, its key and value as bytes, the topic, and the partitions that it has.
Partitioner = Callable[[Any, bytes | None, bytes | None, str, list[int]], int]


class KafkaRecordSerializationSchema(ABC, Generic[T]):
    """Turns a record of the stream into one of a topic. Usually made by :meth:`builder`.

    One's own class has a say in everything, headers too:

    >>> class Traced(KafkaRecordSerializationSchema[tuple[str, str]]):
    ...     def serialize(self, element, timestamp):
    ...         trace, text = element
    ...         return KafkaProducerRecord("texts", text.encode(), headers=[("trace", trace.encode())])
    >>> Traced().serialize(("7f", "hello"), None).headers
    [('trace', b'7f')]
    """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Start building a schema of a topic, a value and, perhaps, a key."""
        return KafkaRecordSerializationSchemaBuilder()

    def open(self, context: KafkaSinkContext) -> None:
        """Called once on each subtask, before the first record."""

    @abstractmethod
    def serialize(self, element: T, timestamp: int | None) -> KafkaProducerRecord | None:
        """The record for Kafka; None: it is left out. ``timestamp`` is the event time in ms, if the record has one."""

    def fixed_topic(self) -> str | None:
        """The topic, where all records go to one."""
        return None

    def columns(self, values: list[T], timestamps: list[int] | None) -> ProducerColumns:
        """A whole batch, in order."""
        times = repeat(-1, len(values)) if timestamps is None else timestamps
        found = _mapped(self.serialize, values, [time if time >= 0 else None for time in times])
        return ProducerColumns.of([record for record in found if record is not None])


class KafkaRecordSerializationSchemaBuilder:
    """Collects what a schema is made of: a topic and a way to serialise values are needed.

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
        """All records go to this topic."""
        if not topic:
            raise ValueError("a topic has a name")
        self._topic, self._selector = topic, None
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Each record goes to the topic that this says."""
        if not isinstance(topic_selector, KafkaTopicSelector) and not callable(topic_selector):
            raise TypeError("topic_selector must be a KafkaTopicSelector or a function")
        self._topic, self._selector = None, topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema[Any]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """How the key is made of a record; without it there are no keys."""
        self._key = _schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema[Any]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """How the value is made of a record."""
        self._value = _schema(value_serialization_schema)
        return self

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """How a partition is chosen: ``partitioner(record, key, value, topic, partitions)`` returns one of the last."""
        if not callable(partitioner):
            raise TypeError("the partitioner must be a function")
        self._partitioner = partitioner
        return self

    def build(self) -> KafkaRecordSerializationSchema[Any]:
        """The schema."""
        if self._value is None:
            raise ValueError("a schema for Kafka's records needs set_value_serialization_schema()")
        if self._topic is None and self._selector is None:
            raise ValueError("a schema for Kafka's records needs set_topic() or set_topic_selector()")
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
            raise RuntimeError("open() comes before the first record")
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
    """A batch of records for Kafka: one list per field, all in the same order; None: no record has that field.

    Timestamps below 0 stand for none.
    """

    topic: str | list[str]
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    partitions: list[int | None] | None = None
    timestamps: list[int] | None = None
    headers: list[Headers] | None = None

    @classmethod
    def of(cls, records: list[KafkaProducerRecord]) -> ProducerColumns:
        """The columns of records."""
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
        """The records one by one; for tests and small things."""
        for topic, value, key, partition, time, headers in zip(*self._endless(), strict=False):
            yield KafkaProducerRecord(topic, value, key, partition, time if time and time >= 0 else None, headers or ())

    def _endless(self) -> tuple[Any, ...]:
        topics = repeat(self.topic) if isinstance(self.topic, str) else self.topic
        optional = (self.keys, self.partitions, self.timestamps, self.headers)
        return (topics, self.values, *(repeat(None) if column is None else column for column in optional))

    def produce(self, produce: Callable[..., None], make_room: Callable[[], object]) -> None:
        """Hand all records to a producer's ``produce``; where its queue is full, wait with ``make_room``.

        Arguments go by position, which takes half the time: topic, value, key, partition, two callbacks, timestamp,
        headers. Partition -1 is any, timestamp 0 is now.
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
        """The batch as an Arrow stream; what all records share is in its metadata."""
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
        """The batch that :meth:`to_bytes` made."""
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
    """The function over all values; an error shows the record."""

    def failed(error: BaseException, position: int) -> SerializationError:
        record = repr(values[position])[:_SHOWN]
        return SerializationError(
            f"a record cannot be made one for Kafka: {type(error).__name__}: {error}\n  the record: {record}"
        )

    return call_each(function, values, failed, beside)
