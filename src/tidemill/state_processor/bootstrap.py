"""Creates state from data: functions that fill the state of an operator, and the job that runs them over rows."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from tidemill.common.configuration import Configuration
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.config import (
    CheckpointingOptions,
    ExecutionOptions,
    PipelineOptions,
    RestartStrategyOptions,
    StateRecoveryOptions,
)
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
from tidemill.datastream.functions import (
    Function,
    KeyedProcessFunction,
    KeySelector,
    ProcessFunction,
    RuntimeContext,
)
from tidemill.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from tidemill.datastream.functions.pickling import given
from tidemill.datastream.functions.state import BroadcastState, MapStateDescriptor, OperatorStateStore
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import GraphError
from tidemill.runtime.task.operator_kinds import BOOTSTRAP

__all__ = [
    "BootstrapTransformation",
    "BroadcastStateBootstrapFunction",
    "KeyedStateBootstrapFunction",
    "OperatorTransformation",
    "StateBootstrapFunction",
]

#: The number of rows in one epoch of a bootstrap job.
_ROWS: Final = 50_000
_SOURCE_UID: Final = "__bootstrap_rows"
#: Options that apply to the job that will use the state, not to the bootstrap job.
_NOT_OURS: Final = (
    CheckpointingOptions.STORAGE,
    ExecutionOptions.JOB_ID,
    ExecutionOptions.RESUME_MODE,
    ExecutionOptions.RUNTIME_MODE,
    StateRecoveryOptions.SAVEPOINT_PATH,
)


class KeyedStateBootstrapFunction(KeyedProcessFunction):
    """Fills keyed state, and registers timers, from rows. It emits nothing; timers fire in the job that is started."""

    _timers_wait = True

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Add a row to the state of its key."""


class StateBootstrapFunction(ProcessFunction, CheckpointedFunction):
    """Fills operator state from rows: ``initialize_state`` creates it, ``snapshot_state`` brings it up to date."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        """Process a row."""


class BroadcastStateBootstrapFunction(Function, abc.ABC):
    """Fills broadcast state from rows; every subtask of the job that is started will have this state."""

    class Context:
        """Gives access to the broadcast state."""

        def __init__(self, store: OperatorStateStore) -> None:
            self._store = store

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """The broadcast state; use the same name and types as the job's function."""
            return self._store.get_broadcast_state(state_descriptor)

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: Context) -> None:
        """Add a row to the state."""


class _Broadcasting(StateBootstrapFunction):
    """Runs the function in a single subtask: it alone receives rows, and its state is restored to all subtasks."""

    def __init__(self, function: BroadcastStateBootstrapFunction) -> None:
        self._function = function

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._context = BroadcastStateBootstrapFunction.Context(context.get_operator_state_store())

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        self._function.process_element(value, self._context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass

    def close(self) -> None:
        self._function.close()


class _Given:
    """The rows of a bootstrap. An iterator can be read only once: a second read would write empty state."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._taken = False

    def take(self) -> Any:
        """The rows. Raises :class:`~tidemill.errors.GraphError` if they have already been consumed."""
        if self._taken and isinstance(self._rows, Iterator):
            raise GraphError("the rows of a bootstrap were read already, and can be read only once: pass a list")
        self._taken = True
        return self._rows


@dataclass(frozen=True)
class BootstrapTransformation:
    """Rows, and the function that creates state from them; runs when the savepoint is written."""

    rows: _Given
    build: Callable[[DataStream], DataStream]


class OperatorTransformation:
    """Starts a bootstrap: ``OperatorTransformation.bootstrap_with(rows).key_by(...).transform(function)``.

    ``rows`` is an iterable, which is read once, a ``pyarrow`` table or record batch reader, or a Spark DataFrame. Rows
    of the last two are tuples of their columns' values.
    """

    def __init__(self, rows: Any) -> None:
        self._rows = _Given(rows)

    @staticmethod
    def bootstrap_with(rows: Any) -> OperatorTransformation:
        """Set the rows from which the state is created."""
        return OperatorTransformation(rows)

    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector | int, key_type: TypeInformation | None = None
    ) -> _Keyed:
        """Set the key of each row; selector and type must be those of the job that will use the state."""
        return _Keyed(self._rows, given(key_selector, "key selector", "key_by"), key_type)

    def transform(self, function: StateBootstrapFunction | BroadcastStateBootstrapFunction) -> BootstrapTransformation:
        """Create operator state or broadcast state."""
        if isinstance(function, BroadcastStateBootstrapFunction):
            single = _Broadcasting(given(function, "function", "transform"))
            return BootstrapTransformation(self._rows, lambda stream: stream.process(single).set_parallelism(1))
        if not isinstance(function, StateBootstrapFunction):
            raise GraphError(
                "rows without keys create operator state: use a StateBootstrapFunction or a "
                "BroadcastStateBootstrapFunction, or key_by() first"
            )
        taken = given(function, "function", "transform")
        return BootstrapTransformation(self._rows, lambda stream: stream.process(taken))


class _Keyed:
    def __init__(self, rows: _Given, selector: Any, key_type: TypeInformation | None) -> None:
        self._rows = rows
        self._selector = selector
        self._key_type = key_type

    def transform(self, function: KeyedStateBootstrapFunction) -> BootstrapTransformation:
        """Create keyed state and timers."""
        if not isinstance(function, KeyedStateBootstrapFunction):
            raise GraphError("keyed rows create keyed state: use a KeyedStateBootstrapFunction")
        taken = given(function, "function", "transform")
        return BootstrapTransformation(
            self._rows, lambda stream: stream.key_by(self._selector, self._key_type).process(taken)
        )


def run_bootstrap(
    transformation: BootstrapTransformation,
    uid: str,
    max_parallelism: int,
    configuration: Configuration,
    directory: str,
) -> str:
    """Run the job that fills an operator's state; returns the path of its final savepoint, below ``directory``.

    The job is stopped with a savepoint; its input does not end. So time does not advance to its end, and timers do not
    fire.
    """
    settings = Configuration(configuration)
    for option in _NOT_OURS:
        settings.remove_config(option.key)
    settings.set(CheckpointingOptions.DIRECTORY, f"{directory}/checkpoints")
    settings.set(ExecutionOptions.EPOCH_MAX_RECORDS, _ROWS)
    settings.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
    settings.set(RestartStrategyOptions.TYPE, "none")  # rows are read once
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    rows = _Rows(transformation.rows.take())
    stream = environment.from_source(rows, WatermarkStrategy.no_watermarks(), "rows").uid(_SOURCE_UID)
    transformation.build(stream).uid(uid).name(f"{BOOTSTRAP}{uid}")
    client = environment.execute_async(f"bootstrap of {uid}")
    result = client.get_job_execution_result()
    try:
        while not rows.exhausted.wait(0.05):
            if result.done():
                result.result()
                raise GraphError(f"the bootstrap of {uid} ended before all rows were read")
        path = client.stop_with_savepoint(False, f"{directory}/savepoints").result()
        result.result()
        return path
    finally:
        client.cancel().result()  # the job never ends by itself; canceling a job that has ended has no effect


class _Rows(SplitSource):
    """Rows in the driver's memory. Signals when all have been assigned, but the source never ends."""

    parallelism = 1
    bounded = False
    replayable = False

    def __init__(self, rows: Any) -> None:
        self.exhausted = threading.Event()
        self._batches = None if rows is None else _batches(rows)

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        batches, self._batches = self._batches, None
        if position is not None or batches is None:
            raise GraphError("the rows of a bootstrap can be read only once: a failed job is not restarted")
        return _RowsEnumerator(batches, self.exhausted)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch(split.payload)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Rows, (None,)  # workers get the rows with their splits


class _RowsEnumerator(SplitEnumerator):
    def __init__(self, batches: Iterator[list[Any]], exhausted: threading.Event) -> None:
        self._batches = batches
        self._exhausted = exhausted
        self._read = 0

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        batch = next(self._batches, None)
        if batch is None:
            # Signaled only now, because the epoch of the last rows is committed.
            self._exhausted.set()
            return []
        self._read += len(batch)
        return [Split(batch, len(batch))]

    def position(self) -> Position:
        return self._read

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        return not self._exhausted.is_set()


def _batches(rows: Any) -> Iterator[list[Any]]:
    if isinstance(rows, pa.Table):
        rows = rows.to_reader()
    if isinstance(rows, pa.RecordBatchReader):
        for batch in rows:
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                yield list(zip(*(column.to_pylist() for column in part.columns), strict=True))
        return
    if hasattr(rows, "toLocalIterator"):
        rows = map(tuple, rows.toLocalIterator(prefetchPartitions=True))
    if not isinstance(rows, Iterable):
        raise GraphError(f"rows must be an iterable, an Arrow table or a DataFrame, not a {type(rows).__name__}")
    iterator = iter(rows)
    while batch := list(islice(iterator, _ROWS)):
        yield batch
