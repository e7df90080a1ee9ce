"""Functions that take part in checkpoints: state of a subtask rather than of a key, and news of what was committed.

Any kind of function (map, flat_map, filter, process, co-functions, sinks; keyed or not) can implement these beside its
own base class. Every epoch is a checkpoint of state; its number is the checkpoint's id.

The life of an instance: ``initialize_state``, ``open``, then for each epoch records and ``snapshot_state`` at its
barrier, at last ``close``. An instance that moves to another worker is made anew and restored there, exactly as after a
failure.
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
    """What a function can learn and get while its state is set up."""

    @abc.abstractmethod
    def is_restored(self) -> bool:
        """Whether the job goes on from a checkpoint; then restored state is at hand once it is registered."""

    @abc.abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The number of the epoch the job goes on from, None for a new job."""

    @abc.abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Where state of this subtask is registered."""

    @abc.abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Where state of the current key is registered; the function must stand on a keyed stream."""

    @abc.abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterable[bytes]:
        """The partitions of raw state that fell to this subtask, each as it was written."""


class RawOperatorStateOutput(abc.ABC):
    """Takes state that a function serialises itself, as partitions: with another parallelism they are dealt out anew.

    What is written at one barrier is the whole raw state; a barrier at which nothing is written leaves none.
    """

    @abc.abstractmethod
    def start_new_partition(self) -> None:
        """Begin a partition; ``write`` adds to it."""

    @abc.abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes to the current partition; begins the first one if there is none."""

    @abc.abstractmethod
    def get_number_of_partitions(self) -> int:
        """How many partitions were begun."""


class FunctionSnapshotContext(abc.ABC):
    """What a function can learn at a barrier."""

    @abc.abstractmethod
    def get_checkpoint_id(self) -> int:
        """The number of the epoch that ends."""

    @abc.abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """The processing time of the epoch, in ms."""

    @abc.abstractmethod
    def get_raw_operator_state_output(self) -> RawOperatorStateOutput:
        """Where raw state of this subtask is written."""


class CheckpointedFunction(abc.ABC):
    """A function with operator state: state of its subtask, whatever the key.

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
        """Register states, and take what was restored into them; called once, before ``open``."""

    @abc.abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """The barrier: put into the states what must not be lost. What did not change costs nothing to store."""


class ListCheckpointed(abc.ABC):
    """A function whose state is one list, dealt out evenly when the parallelism changes.

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
        """The barrier: the elements of the state."""

    @abc.abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Take the elements that fell to this subtask, possibly none; called before ``open``, not for a new job."""


class CheckpointListener:
    """A function that is told what became of the epochs it took part in.

    - ``notify_checkpoint_complete(n)`` comes at the start of an instance's next epoch, if epoch ``n`` was committed
      from what this instance did. Until the manifest of an epoch is written nothing of it counts.
    - ``notify_checkpoint_aborted(n)`` comes if epoch ``n`` is run again; the instance is closed right after.

    Neither is promised: the last epoch of a job has no next one, and an instance that is lost with its worker hears
    nothing. What was restored is complete (``get_restored_checkpoint_id``), so act on all earlier numbers too.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Epoch ``checkpoint_id``, and with it all earlier ones, is committed."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """What this instance did in epoch ``checkpoint_id`` does not count."""


def is_checkpointed(function: Any) -> bool:
    """Whether a function takes part in checkpoints, so that its subtasks must not come and go."""
    return isinstance(function, (CheckpointedFunction, ListCheckpointed, CheckpointListener))
