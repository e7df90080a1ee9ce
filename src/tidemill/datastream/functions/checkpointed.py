"""Functions that participate in checkpoints: with operator state, or with notifications of committed checkpoints.

Any kind of function (map, flat_map, filter, process, co-functions, sinks; keyed or not) can implement these interfaces
in addition to its base class. Every epoch is a checkpoint; its number is the checkpoint id.

The life cycle of an instance is ``initialize_state``, ``open``, then for each epoch the records and ``snapshot_state``
at its barrier, and finally ``close``. If an instance moves to another worker, a new instance is created and restored
there, exactly as after a failure.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.datastream.functions.base import KeyedStateStore
from tidemill.datastream.functions.state import OperatorStateStore

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "ListCheckpointed",
    "RawOperatorStateOutput",
    "is_checkpointed",
]


class FunctionInitializationContext(abc.ABC):
    """The context in which a function initializes its state."""

    @abc.abstractmethod
    def is_restored(self) -> bool:
        """Whether the job resumes from a checkpoint. If so, a state contains its restored value once registered."""

    @abc.abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The number of the epoch that the job resumes from, or None for a new job."""

    @abc.abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """The store in which operator state is registered."""

    @abc.abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """The store in which keyed state is registered. Only available on a keyed stream."""

    @abc.abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterable[bytes]:
        """The partitions of raw state assigned to this subtask, each as it was written."""


class RawOperatorStateOutput(abc.ABC):
    """Output for state that a function serializes itself.

    The state consists of partitions, which are redistributed when the parallelism changes. The partitions written at a
    barrier replace the raw state as a whole: if nothing is written, the state is empty.
    """

    @abc.abstractmethod
    def start_new_partition(self) -> None:
        """Start a partition, to which ``write`` adds."""

    @abc.abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes to the current partition. Starts the first partition if there is none."""

    @abc.abstractmethod
    def get_number_of_partitions(self) -> int:
        """The number of partitions started so far."""


class FunctionSnapshotContext(abc.ABC):
    """The context in which a function takes a snapshot of its state."""

    @abc.abstractmethod
    def get_checkpoint_id(self) -> int:
        """The number of the ending epoch."""

    @abc.abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """The processing time of the epoch, in ms."""

    @abc.abstractmethod
    def get_raw_operator_state_output(self) -> RawOperatorStateOutput:
        """The output for raw state of this subtask."""


class CheckpointedFunction(abc.ABC):
    """A function with operator state, which belongs to the subtask and not to a key.

    >>> from tidemill.common import Types
    >>> from tidemill.datastream import FlatMapFunction, ListStateDescriptor
    >>> from tidemill.testing import OperatorHarness
    >>> class Pairs(FlatMapFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         descriptor = ListStateDescriptor("waiting", Types.LONG())
    ...         self.state = context.get_operator_state_store().get_list_state(descriptor)
    ...         self.waiting = list(self.state.get())
    ...     def flat_map(self, value):
    ...         self.waiting.append(value)
    ...         if len(self.waiting) == 2:
    ...             yield tuple(self.waiting)
    ...             self.waiting.clear()
    ...     def snapshot_state(self, context):
    ...         self.state.update(self.waiting)
    >>> harness = OperatorHarness(Pairs())
    >>> harness.process(1)
    >>> snapshot = harness.snapshot()
    >>> harness.close()
    >>> with harness.restore(snapshot) as restored:
    ...     restored.process(2)
    ...     restored.output()
    [(1, 2)]
    """

    @abc.abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register states and read their restored values. Called once, before ``open``."""

    @abc.abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Update the registered states at a barrier. States that did not change cost nothing to store."""


class ListCheckpointed(abc.ABC):
    """A function whose state is one list, which is redistributed evenly when the parallelism changes.

    >>> from tidemill.datastream import MapFunction
    >>> from tidemill.testing import OperatorHarness
    >>> class Count(MapFunction, ListCheckpointed):
    ...     count = 0
    ...     def map(self, value):
    ...         self.count += 1
    ...         return value, self.count
    ...     def snapshot_state(self, checkpoint_id, timestamp):
    ...         return [self.count]
    ...     def restore_state(self, state):
    ...         self.count = sum(state)
    >>> harness = OperatorHarness(Count())
    >>> harness.process("a")
    >>> snapshot = harness.snapshot()
    >>> harness.close()
    >>> with harness.restore(snapshot) as restored:
    ...     restored.process("b")
    ...     restored.output()
    [('b', 2)]
    """

    @abc.abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Sequence[Any]:
        """Return the elements of the state. Called at a barrier."""

    @abc.abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Restore the elements assigned to this subtask, possibly none. Called before ``open``, not for a new job."""


class CheckpointListener:
    """A function that is notified when its epochs are committed or aborted.

    - ``notify_checkpoint_complete(n)`` is called at the start of the instance's next epoch, if epoch ``n`` was
      committed with the results of this instance. An epoch has no effect until its manifest is written.
    - ``notify_checkpoint_aborted(n)`` is called if epoch ``n`` is repeated. The instance is closed right afterwards.

    Notifications are not guaranteed: there is no epoch after the last one of a job, and an instance that is lost with
    its worker is not notified. A restored epoch is committed (``get_restored_checkpoint_id``), so handle all earlier
    epochs too.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when epoch ``checkpoint_id``, and therefore all earlier ones, are committed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called when the results of this instance in epoch ``checkpoint_id`` are discarded."""


def is_checkpointed(function: Any) -> bool:
    """Whether a function participates in checkpoints, so that its number of subtasks must not vary between epochs."""
    return isinstance(function, (CheckpointedFunction, ListCheckpointed, CheckpointListener))
