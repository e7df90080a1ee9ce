"""Runs one user function, or a few chained functions, as in a subtask of the engine, one record at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from tidemill.checkpoint.model import Epoch
from tidemill.common.configuration import Configuration
from tidemill.common.typeinfo import TypeInformation
from tidemill.config import ExecutionOptions
from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.program.transformations import PartitionKind
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import GraphError, StateError, TidemillError, without_engine_frames
from tidemill.graph.plan import ChainPlan, JobPlan
from tidemill.graph.uids import operators_by_uid
from tidemill.python_versions import Self
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.driver.launch import prepare
from tidemill.runtime.exchange.routes import key_extractor
from tidemill.runtime.exchange.sorted_input import SortedInput
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.task.chain import Chain, ChainSettings
from tidemill.runtime.time.input_clock import Channel, InputClock
from tidemill.state.files.state_file import Section, decode_sections, encode_sections
from tidemill.state.files.ttl_merge import CommittedTimes
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.keys.canonical_key import canonical_keys
from tidemill.state.keys.key_groups import Subtask
from tidemill.state.merging import merge_sections
from tidemill.state.operator.operator_state import is_operator_state
from tidemill.testing.program import apply_function, inputs_of
from tidemill.testing.scripted_source import ScriptedSource
from tidemill.testing.snapshot import Snapshot

Build = Callable[..., DataStream]

#: The sort memory in BATCH mode. The input of tests is small and stays in memory.
_SORT_MEMORY = 1 << 30


class OperatorHarness:
    """Runs a function on a stream that is not keyed; :class:`~tidemill.testing.KeyedHarness` is for keyed streams.

    ``what`` is a function object (MapFunction, ProcessFunction, CoMapFunction, ...), or a callable that takes one
    stream, or two, and returns the stream to record. All operators that it adds must be chained.

    >>> with OperatorHarness(lambda words: words.flat_map(str.split).filter(lambda w: w != "or")) as harness:
    ...     harness.process("to be or not")
    ...     harness.output()
    ['to', 'be', 'not']
    """

    def __init__(
        self,
        what: Any,
        *,
        parallelism: int = 1,
        subtask: int = 0,
        processing_time: int = 0,
        runtime_mode: str = "STREAMING",
        job_parameters: dict[str, str] | None = None,
        types: Iterable[TypeInformation | None] = (),
        broadcast: Iterable[MapStateDescriptor] = (),
        snapshot: Snapshot | None = None,
    ) -> None:
        """``types`` are the types of the inputs, if they matter. With ``snapshot``, the harness starts from that state.

        ``broadcast`` are the broadcast states of a function, whose elements are the second stream.
        """
        # configuration
        self._what = what
        self._settings = ChainSettings(job_parameters or {}, runtime_mode, runs_again=False)
        self._broadcast = tuple(broadcast)
        self._options: dict[str, Any] = {
            "broadcast": self._broadcast,
            "runtime_mode": runtime_mode,
            "job_parameters": job_parameters,
            "types": tuple(types),
        }
        self.parallelism = parallelism
        self.subtask = subtask
        plan, self._shown_uid = self._compile(what, tuple(types))
        self._chain_plan = self._only_chain(plan)
        self._extractors = self._key_extractors(plan)
        # transient
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._side: dict[str, list[tuple[Any, int | None]]] = {}
        self._watermarks: list[int] = []
        self._idle = False
        self._epoch = 0 if snapshot is None else snapshot.epoch
        # checkpointed
        self._files: list[bytes] = [] if snapshot is None else list(snapshot.files)
        self._clock = max(processing_time, 0 if snapshot is None else snapshot.clock)
        self._started_at = -1 if snapshot is None else snapshot.clock
        self._start(snapshot)

    # --- pushing records and time

    def process(self, value: Any, timestamp: int | None = None, *, stream: int = 1) -> None:
        """Push one record into the first input, or into the second with ``stream=2``."""
        if not 1 <= stream <= len(self._extractors):
            raise ValueError(f"the function has {len(self._extractors)} inputs, there is no stream {stream}")
        try:
            extract = self._extractors[stream - 1]
            keys = None if extract is None else canonical_keys(extract([value]))
            if keys is not None:
                self._check_mine(keys[0])
            stamps = None if timestamp is None else [timestamp]
            process = self._chain.head.process if self._sorted is None or keys is None else self._sorted.add
            process(Batch([value], stamps, keys), stream - 1)
        except TidemillError as error:
            raise without_engine_frames(error)  # noqa: B904 - it is the same error

    def process_all(self, values: Iterable[Any], *, stream: int = 1) -> None:
        """Push several records without timestamps."""
        for value in values:
            self.process(value, stream=stream)

    def watermark(self, timestamp: int, *, stream: int | None = None) -> None:
        """Advance the watermark of one input, or of all. Timers that become due fire."""
        channels = [stream - 1] if stream is not None else range(len(self._extractors))
        for channel in channels:
            moved = self._input_clock.advance(Channel(channel, 0), timestamp)
            if moved is not None:
                try:
                    self._chain.head.watermark(moved)
                except TidemillError as error:
                    raise without_engine_frames(error)  # noqa: B904 - it is the same error

    def mark_idle(self, *, stream: int | None = None) -> None:
        """Mark one input, or all, as idle: they do not hold back event time."""
        self._set_idle(True, stream)

    def mark_active(self, *, stream: int | None = None) -> None:
        """Mark one input, or all, as active again."""
        self._set_idle(False, stream)

    def set_processing_time(self, timestamp: int) -> None:
        """Advance processing time. Timers that become due fire, and watermark generators emit periodically."""
        if timestamp < self._clock:
            raise ValueError(f"processing time is {self._clock} and cannot go back to {timestamp}")
        self._clock = timestamp
        for operator in self._chain.operators:
            operator.begin_epoch(timestamp)
            if isinstance(operator, TimestampsOperator):
                operator.emit_periodically()

    def end_input(self) -> None:
        """End all inputs, with a final watermark (in BATCH mode for each key)."""
        if self._sorted is not None:
            for batches in self._sorted.key_groups():
                self._chain.process_keys(batches)
        self.watermark(MAX_TIME)
        self._chain.end_input()

    # --- looking at what came out

    def output(self) -> list[Any]:
        """Return the values emitted so far."""
        return list(self._values)

    def output_with_timestamps(self) -> list[tuple[Any, int | None]]:
        """Return the values emitted so far, each with its event timestamp."""
        return list(zip(self._values, self._timestamps, strict=True))

    def side_output(self, tag: OutputTag | str) -> list[Any]:
        """Return the values emitted with this tag so far."""
        return [value for value, _ in self.side_output_with_timestamps(tag)]

    def side_output_with_timestamps(self, tag: OutputTag | str) -> list[tuple[Any, int | None]]:
        """Return the values emitted with this tag so far, each with its event timestamp."""
        return list(self._side.get(tag.tag_id if isinstance(tag, OutputTag) else tag, ()))

    def watermarks(self) -> list[int]:
        """Return the watermarks emitted so far."""
        return list(self._watermarks)

    @property
    def is_idle(self) -> bool:
        """Whether the output is marked as idle."""
        return self._idle

    def clear_output(self) -> None:
        """Discard the output so far."""
        self._values, self._timestamps, self._side, self._watermarks = [], [], {}, []

    @property
    def function(self) -> Any:
        """The (first) running user function, which is a copy of the one passed to the harness, as on a worker."""
        functions = self._chain.head.functions()
        return functions[0] if functions else None

    # --- epochs, snapshots

    def checkpoint(self) -> bytes:
        """End an epoch and commit its changes; returns them as a state file, which is empty if nothing changed.

        Afterwards the function reads only committed state, as at the start of any epoch.
        """
        self._chain.end_epoch()
        self._chain.snapshot_state(Epoch(self._epoch), self._clock)
        sections = self._chain.export_delta()
        data = b""
        if sections:
            data, _ = encode_sections(sections)
            self._files.append(data)
        self._chain.fold()
        self._begin_epoch()
        return data

    def snapshot(self) -> Snapshot:
        """End an epoch, and return the complete committed state of this subtask with the clocks."""
        self.checkpoint()
        sections = list(self._keyed_sections())
        if len(self._files) > 1:
            limits = {operator.uid: operator.max_parallelism for operator in self._chain_plan.operators}
            marks = {operator.context.plan.uid: operator.current_watermark for operator in self._chain.operators}
            times = CommittedTimes(self._clock, self._started_at, marks)
            sections = merge_sections(sections, limits, keep_deletes=False, times=times)
        for states in self._chain.operator_states:
            sections += states.export_all()
        files = (encode_sections(sections)[0],) if sections else ()
        return Snapshot(files, self._input_clock.current, self._clock, self._epoch - 1)

    def restore(
        self, snapshot: Snapshot | bytes, *, parallelism: int | None = None, subtask: int | None = None
    ) -> Self:
        """Create a harness for the same function that starts from a snapshot, as one subtask at any parallelism.

        To restore from several subtasks, combine their snapshots with :meth:`Snapshot.of_all`.
        """
        found = Snapshot.from_bytes(snapshot) if isinstance(snapshot, bytes) else snapshot
        return type(self)(
            self._what,
            parallelism=parallelism or self.parallelism,
            subtask=self.subtask if subtask is None else subtask,
            snapshot=found,
            **self._options,
        )

    def operator_state(self, name: str) -> Any:
        """Return the contents of an operator state, as the function sees it: a list, or a dict for broadcast state."""
        for states in self._chain.operator_states:
            if name in {*states.get_registered_state_names(), *states.get_registered_broadcast_state_names()}:
                return states.content(name)
        raise StateError(f"{self._chain_plan.name!r} registered no operator state {name!r}")

    def close(self) -> None:
        """Close the function."""
        self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- building blocks

    def _apply(self, streams: list[DataStream]) -> DataStream:
        """Add the operators under test to the input streams."""
        return apply_function(self._what, streams, self._broadcast)

    def _compile(self, what: Any, types: tuple[TypeInformation | None, ...]) -> tuple[JobPlan, str]:
        env = StreamExecutionEnvironment(Configuration())
        env.set_parallelism(self.parallelism)
        env._configuration.set(ExecutionOptions.RUNTIME_MODE, self._settings.runtime_mode)
        streams = []
        for number in range(inputs_of(what)):
            declared = types[number] if number < len(types) else None
            source = ScriptedSource(None, parallelism=self.parallelism)
            streams.append(env.from_source(source, None, f"input {number + 1}", declared).disable_chaining())
        shown = self._apply(streams)
        node = shown._operator("a harness").id
        program = env._program("harness")
        plan = prepare(program, self.parallelism).plan
        uids = {transformation.id: uid for uid, transformation in operators_by_uid(program.transformations).items()}
        return plan, uids[node]

    @staticmethod
    def _only_chain(plan: JobPlan) -> ChainPlan:
        tested = [chain for chain in plan.chains if chain.head.inputs > 0]
        if len(tested) != 1:
            raise GraphError(
                f"a harness runs the operators of one task, but these are in {len(tested)} tasks: "
                f"{'; '.join(chain.name for chain in tested)}. Use JobHarness for them."
            )
        return tested[0]

    def _key_extractors(self, plan: JobPlan) -> list[Callable[[list[Any]], list[Any]] | None]:
        extractors: list[Callable[[list[Any]], list[Any]] | None] = [None] * self._chain_plan.head.inputs
        if self._chain_plan.head.keyed:
            for edge in plan.edges_into(self._chain_plan.id):
                if edge.kind is PartitionKind.KEY_GROUP:
                    partitioning = pickle.loads(edge.partitioner)
                    extractors[edge.input_index] = key_extractor(
                        self._chain_plan.head.name, partitioning.selector, partitioning.key_type
                    )
        return extractors

    def _keyed_sections(self) -> Iterator[Section]:
        """Return the sections of this subtask's key groups in the files."""
        for backend in self._chain.backends:
            first, last = backend.groups.first, backend.groups.last
            for file in self._files:
                sections = decode_sections(file, "snapshot", {backend.operator}, first, last)
                yield from (section for section in sections if not is_operator_state(section))

    def _start(self, snapshot: Snapshot | None) -> None:
        watermark = MIN_TIME if snapshot is None else snapshot.watermark
        chain = self._chain = Chain(self._chain_plan, {}, Subtask(self.subtask), self.parallelism, self._settings)
        chain.load(self._keyed_sections())
        for file in self._files:
            chain.load(filter(is_operator_state, decode_sections(file, "snapshot")))
        shown = next(operator for operator in chain.operators if operator.context.plan.uid == self._shown_uid)
        shown.output.connect(self._take, self._watermarks_append, None, self._take_status)
        shown.output.on_unread = self._take_side
        chain.restore_watermarks(watermark, {})
        chain.set_processing_time(self._clock)
        chain.restore_times({})
        head = self._chain_plan.head
        in_batch_mode = head.keyed and self._settings.runtime_mode == "BATCH"
        self._sorted = SortedInput(head.max_parallelism, _SORT_MEMORY, "the harness") if in_batch_mode else None
        channels = [Channel(number, 0) for number in range(len(self._extractors))]
        self._input_clock = InputClock(channels, watermark, {number: number for number in range(len(channels))})
        chain.open(None if snapshot is None else snapshot.epoch)
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._epoch += 1
        writer = {"job_id": "harness", "lineage": "harness", "epoch": self._epoch, "attempt": f"{self._epoch}"}
        self._chain.begin_epoch(self._clock, writer)

    def _take(self, batch: Batch) -> None:
        self._values += batch.values
        self._timestamps += _stamps_of(batch)

    def _take_side(self, tag: str, batch: Batch) -> None:
        self._side.setdefault(tag, []).extend(zip(batch.values, _stamps_of(batch), strict=True))

    def _watermarks_append(self, watermark: int) -> None:
        self._watermarks.append(watermark)

    def _take_status(self, idle: bool) -> None:
        self._idle = idle

    def _set_idle(self, idle: bool, stream: int | None) -> None:
        clock, head = self._input_clock, self._chain.head
        for number in [stream - 1] if stream is not None else range(len(self._extractors)):
            was_idle = clock.idle
            moved = clock.set_idle(Channel(number, 0), idle)
            if was_idle and not clock.idle:
                head.watermark_status(False)
            if moved is not None:
                head.watermark(moved)
            if clock.idle and not was_idle:
                head.watermark_status(True)

    def _backend(self) -> KeyedStateBackend:
        if not self._chain.backends:
            raise StateError(f"{self._chain_plan.name!r} has no keyed state: its input is not keyed")
        return self._chain.backends[0]

    def _check_mine(self, key: Any) -> None:
        backend = self._backend()
        group = backend.group_of(key)
        if group not in backend.groups:
            raise TidemillError(
                f"key {key!r} is in key group {group}, but subtask {self.subtask} of {self.parallelism} has the groups "
                f"{backend.groups.first} to {backend.groups.last}"
            )


def _stamps_of(batch: Batch) -> list[int | None]:
    return [None] * len(batch) if batch.timestamps is None else list(batch.timestamps)
