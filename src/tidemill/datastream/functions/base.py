"""What every user function has in common: its life cycle and what it can ask of the runtime."""

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
    """Gives access to the state of the current key.

    State objects are made once, usually in ``open()``; each access then works on the key of the record at hand.
    """

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key."""
        found: ValueState[Any] = self._keyed_state(state_descriptor)
        return found

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key; adding costs what is added, not what is there."""
        found: ListState[Any] = self._keyed_state(state_descriptor)
        return found

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map per key; an access touches one entry, not the map."""
        found: MapState[Any, Any] = self._keyed_state(state_descriptor)
        return found

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One value per key, combined from all values added."""
        found: ReducingState[Any] = self._keyed_state(state_descriptor)
        return found

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """One accumulator per key, read as a result."""
        found: AggregatingState[Any, Any] = self._keyed_state(state_descriptor)
        return found

    def _keyed_state(self, state_descriptor: StateDescriptor) -> Any:
        """The state that a descriptor declares, of any kind."""
        raise NotImplementedError


class RuntimeContext(KeyedStateStore):
    """What a function can learn and get while it runs; handed to :meth:`Function.open`."""

    @abc.abstractmethod
    def get_task_name(self) -> str:
        """The operator's name."""

    @abc.abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """How many subtasks run this operator."""

    @abc.abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The operator's max parallelism: its number of key groups."""

    @abc.abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Which subtask this is, from 0."""

    @abc.abstractmethod
    def get_attempt_number(self) -> int:
        """How often this subtask was started before, from 0."""

    @abc.abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with subtask and parallelism: ``Map (1/4)``."""

    @abc.abstractmethod
    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A job-wide parameter (``pipeline.global-job-parameters``), else the default."""

    @abc.abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Where the function registers its own metrics."""


class Function(abc.ABC):  # noqa: B024 - every hook is optional
    """Base of all user functions.

    ``open`` runs once for a subtask in a worker, not once per epoch. Only declared state survives a failure or a move
    to another worker: attributes set on ``self`` are working memory.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called before the first record: get state, register metrics, open connections."""

    def close(self) -> None:
        """Called after the last record, also after a failure: release what ``open`` took."""
