"""The source that reads Kinesis Data Streams, with PyFlink's class name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidemill.common.serialization import DeserializationSchema
from tidemill.connectors.kinesis.assigners import KinesisShardAssigner, WatermarkTracker
from tidemill.connectors.kinesis.client import AwsClients, checked_properties
from tidemill.connectors.kinesis.enumerator import ShardEnumerator
from tidemill.connectors.kinesis.options import ConsumerOptions
from tidemill.connectors.kinesis.records import KinesisDeserializationSchema
from tidemill.connectors.sources import ClockOf, Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.errors import ConfigurationError

__all__ = ["FlinkKinesisConsumer"]


class FlinkKinesisConsumer(SplitSource):
    """Reads the records of streams, each exactly once, also while shards are split and merged.

    The position of every shard is part of the job's state. The driver reads the shards, and subtasks deserialize the
    records. A record's timestamp is its approximate time of arrival.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> properties = {"aws.region": "eu-west-1", "flink.stream.initpos": "TRIM_HORIZON"}
    >>> FlinkKinesisConsumer("clicks", SimpleStringSchema(), properties)
    FlinkKinesisConsumer(['clicks'] of Kinesis at eu-west-1)
    """

    bounded = False
    tells_ends = False

    def __init__(
        self,
        streams: str | Sequence[str],
        deserializer: DeserializationSchema[Any] | KinesisDeserializationSchema[Any],
        config_props: Mapping[str, Any],
    ) -> None:
        if not isinstance(deserializer, (DeserializationSchema, KinesisDeserializationSchema)):
            raise TypeError(
                f"a DeserializationSchema or KinesisDeserializationSchema is needed, not {type(deserializer).__name__}"
            )
        self._streams = [streams] if isinstance(streams, str) else list(streams)
        if not self._streams:
            raise ConfigurationError("a Kinesis consumer needs at least one stream")
        properties = checked_properties(config_props)
        if not properties.get("aws.region") and not properties.get("aws.endpoint"):
            raise ConfigurationError("a Kinesis consumer needs the property aws.region or aws.endpoint")
        self._clients = AwsClients("kinesis", properties)
        self._clients.check()
        self._options = ConsumerOptions.of(properties)
        self._schema = deserializer
        self._assigner = KinesisShardAssigner.default_shard_assigner()
        self.type_info = deserializer.get_produced_type()

    @property
    def clock_of(self) -> ClockOf:
        return ClockOf.PARTITION

    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> FlinkKinesisConsumer:
        """Set which subtask processes which shard."""
        if not isinstance(shard_assigner, KinesisShardAssigner):
            raise TypeError(f"a KinesisShardAssigner is needed, not {type(shard_assigner).__name__}")
        self._assigner = shard_assigner
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: Any) -> FlinkKinesisConsumer:
        """Rejected: pass a WatermarkStrategy to ``env.from_source``, which applies it to each shard."""
        raise ConfigurationError(
            "set_periodic_watermark_assigner() is not supported: pass a WatermarkStrategy to "
            "env.from_source(consumer, strategy, 'name'), which generates watermarks for each shard"
        )

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> FlinkKinesisConsumer:
        """Accepted and unused: the watermark strategy of the stream aligns the shards."""
        return self

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that reads the shards from their positions."""
        return ShardEnumerator(self._clients, self._streams, self._options, self._assigner, position)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Deserialize the records of a split."""
        yield split.payload.decode(self._schema)

    def __repr__(self) -> str:
        return f"FlinkKinesisConsumer({self._streams} of {self._clients.shown})"
