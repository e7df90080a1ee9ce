"""Methods that distribute a stream over the subtasks of the next operator. Those by key are in ``data_stream.py``."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from tidemill.datastream.functions.basic import KeySelector, Partitioner
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor
from tidemill.datastream.program.key_selectors import as_key_selector, as_partitioner
from tidemill.datastream.program.transformations import Partitioning, PartitionKind

if TYPE_CHECKING:
    from tidemill.datastream.streams.broadcast_stream import BroadcastStream
    from tidemill.datastream.streams.data_stream import DataStream


class StreamPartitioning(abc.ABC):
    """The methods of a stream that set its partitioning."""

    @abc.abstractmethod
    def _partitioned(self, partitioning: Partitioning, method: str = "") -> DataStream:
        """The stream with another partitioning, which was set by a method of this name."""

    def shuffle(self) -> DataStream:
        """Send each record to a random subtask of the next operator."""
        return self._partitioned(Partitioning(PartitionKind.SHUFFLE))

    def rebalance(self) -> DataStream:
        """Distribute records to all subtasks of the next operator in round-robin order."""
        return self._partitioned(Partitioning(PartitionKind.REBALANCE))

    def rescale(self) -> DataStream:
        """Like :meth:`rebalance`, but each subtask sends to a subset of the next operator's subtasks."""
        return self._partitioned(Partitioning(PartitionKind.RESCALE))

    def forward(self) -> DataStream:
        """Send records to the subtask with the same index. Both operators need the same parallelism."""
        return self._partitioned(Partitioning(PartitionKind.FORWARD))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *other_broadcast_state_descriptors: MapStateDescriptor
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send each record to every subtask of the next operator.

        With state descriptors, returns a stream that can be connected with another stream, and whose records update
        these states: see :class:`BroadcastProcessFunction`.
        """
        from tidemill.datastream.streams.broadcast_stream import BroadcastStream

        stream = self._partitioned(Partitioning(PartitionKind.BROADCAST))
        if broadcast_state_descriptor is None:
            return stream
        return BroadcastStream(stream, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def global_(self) -> DataStream:
        """Send all records to the first subtask of the next operator."""
        return self._partitioned(Partitioning(PartitionKind.GLOBAL))

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector | int | str,
    ) -> DataStream:
        """Send each record to the subtask with the index ``partitioner(key, number of subtasks)``.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> pairs = env.from_collection([(1, "a"), (2, "b")])
        >>> sorted(pairs.partition_custom(lambda key, count: key % count, 0).map(str).execute_and_collect())
        ["(1, 'a')", "(2, 'b')"]
        """
        selector, custom = as_key_selector(key_selector), as_partitioner(partitioner)
        return self._partitioned(Partitioning(PartitionKind.CUSTOM, selector, custom), "partition_custom")
