"""The base of all user functions: their life cycle and their access to the runtime."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.datastream.functions.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from tidemill.metrics import MetricGroup


class KeyedStateStore(abc.ABC):  # noqa: B024 - one method is enough, or any of the others
    """Provides access to the state of the current key.

    State objects are created once, usually in ``open()``. Each access then refers to the key of the current record.
    """

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """State with one value per key."""
        found: ValueState[Any] = self._keyed_state(state_descriptor)
        return found

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """State with a list per key. The cost of adding elements does not depend on the length of the list."""
        found: ListState[Any] = self._keyed_state(state_descriptor)
        return found

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """State with a map per key. Access to an entry does not load the whole map."""
        found: MapState[Any, Any] = self._keyed_state(state_descriptor)
        return found

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """State with one value per key, which is the reduction of all added values."""
        found: ReducingState[Any] = self._keyed_state(state_descriptor)
        return found

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """State with one accumulator per key. Reading it returns the result of the aggregation."""
        found: AggregatingState[Any, Any] = self._keyed_state(state_descriptor)
        return found

    def _keyed_state(self, state_descriptor: StateDescriptor) -> Any:
        """The state that a descriptor declares. Supports all kinds of state."""
        raise NotImplementedError


class RuntimeContext(KeyedStateStore):
    """Information about the running subtask, and access to its state and metrics. Passed to :meth:`Function.open`."""

    @abc.abstractmethod
    def get_task_name(self) -> str:
        """The name of the operator."""

    @abc.abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The parallelism of the operator."""

    @abc.abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The max parallelism of the operator, which is its number of key groups."""

    @abc.abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """The index of this subtask, starting from 0."""

    @abc.abstractmethod
    def get_attempt_number(self) -> int:
        """The attempt number of this subtask, starting from 0."""

    @abc.abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """The name of the operator with subtask and parallelism: ``Map (1/4)``."""

    @abc.abstractmethod
    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """The value of a global job parameter (``pipeline.global-job-parameters``), or the default."""

    @abc.abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """The metric group in which the function registers its metrics."""


class Function(abc.ABC):  # noqa: B024 - every hook is optional
    """Base class of all user functions.

    ``open`` runs once per subtask in a worker, not once per epoch. Only declared state survives a failure or a move to
    another worker. Attributes of ``self`` are transient.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called before the first record, to get state, register metrics and open connections."""

    def close(self) -> None:
        """Called after the last record and after a failure, to release resources acquired in ``open``."""
