"""Calls the methods of functions with operator state, and provides their contexts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidemill.datastream.functions.base import KeyedStateStore
from tidemill.datastream.functions.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    RawOperatorStateOutput,
)
from tidemill.datastream.functions.state import OperatorStateStore
from tidemill.datastream.functions.state_descriptors import ListStateDescriptor
from tidemill.state.operator.operator_state import OperatorStateBackend

#: The state of a ListCheckpointed function; Flink's name for it.
LIST_CHECKPOINTED: Final = "_default_"


class InitializationContext(FunctionInitializationContext):
    """The context of ``initialize_state``; ``restored`` is the epoch from which the job resumes."""

    def __init__(self, states: OperatorStateBackend, keyed: KeyedStateStore, restored: int | None) -> None:
        self._states = states
        self._keyed = keyed
        self._restored = restored

    def is_restored(self) -> bool:
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._states

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed

    def get_raw_operator_state_inputs(self) -> Iterable[bytes]:
        return list(self._states.raw_state().get())


class SnapshotContext(FunctionSnapshotContext, RawOperatorStateOutput):
    """The context of ``snapshot_state``, which also accepts raw state."""

    def __init__(self, checkpoint_id: int, timestamp: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._timestamp = timestamp
        self._partitions: list[bytearray] = []

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp

    def get_raw_operator_state_output(self) -> RawOperatorStateOutput:
        return self

    def start_new_partition(self) -> None:
        self._partitions.append(bytearray())

    def write(self, data: bytes) -> None:
        if not self._partitions:
            self.start_new_partition()
        self._partitions[-1] += data

    def get_number_of_partitions(self) -> int:
        return len(self._partitions)

    def keep_raw_state(self, states: OperatorStateBackend) -> None:
        """Store what was written as raw state. A function that never writes any has no raw state."""
        if self._partitions or states.has_raw_state():
            states.raw_state().update(bytes(partition) for partition in self._partitions)


def initialize(function: Any, states: OperatorStateBackend, keyed: KeyedStateStore, restored: int | None) -> None:
    """Initialize the operator state of a function, before it is opened."""
    if isinstance(function, CheckpointedFunction):
        function.initialize_state(InitializationContext(states, keyed, restored))
    elif isinstance(function, ListCheckpointed):
        state = states.get_list_state(ListStateDescriptor(LIST_CHECKPOINTED))
        if restored is not None:
            function.restore_state(list(state.get()))


def snapshot(function: Any, states: OperatorStateBackend, checkpoint_id: int, timestamp: int) -> None:
    """Let a function update its operator state at the end of an epoch."""
    if isinstance(function, CheckpointedFunction):
        context = SnapshotContext(checkpoint_id, timestamp)
        function.snapshot_state(context)
        context.keep_raw_state(states)
    elif isinstance(function, ListCheckpointed):
        elements = function.snapshot_state(checkpoint_id, timestamp)
        states.get_list_state(ListStateDescriptor(LIST_CHECKPOINTED)).update(elements or ())


def listens(function: Any) -> bool:
    """Whether a function is notified of committed and aborted checkpoints."""
    return isinstance(function, CheckpointListener)
