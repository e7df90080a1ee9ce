"""Runs a whole program in this process, epoch by epoch, with faults, moves between workers and restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.storage.storages import MemoryStorage, Storage
from tidemill.common.completable_future import CompletableFuture
from tidemill.common.configuration import Configuration
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.common.reports.upgrade_report import UpgradeReport
from tidemill.config import ExecutionOptions, PipelineOptions
from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.time_domain import TimeDomain
from tidemill.errors import StateError, TidemillError, without_engine_frames
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.graph.plan import OperatorPlan
from tidemill.local.engine import LocalEngine, Placement
from tidemill.metrics.registry import MetricRegistry
from tidemill.python_versions import Self
from tidemill.runtime.driver.assembly import HarnessSettings, JobAssembly
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.dry_run import report_upgrade
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.launch import Launch, prepare
from tidemill.runtime.driver.savepoints import Ending
from tidemill.testing.committed_state import CommittedState
from tidemill.testing.recording_sink import Recording, RecordingSink
from tidemill.testing.scripted_source import Script, ScriptedSource

#: Builds a program: its arguments are the environment and, by name, the input streams; returns the streams to record.
Build = Callable[..., DataStream | Mapping[str, DataStream] | None]

MAIN = "output"
_JOB_ID = "job-harness"


def moving(workers: int) -> Placement:
    """Return a placement that moves every subtask to another worker in each epoch, so that each epoch starts cold."""
    return lambda epoch, level, partition: (epoch + partition) % workers


class JobHarness:
    """A job and everything that survives its crash: its storage, its input, and the results its sinks have committed.

    ``build`` is called with a :class:`StreamExecutionEnvironment` and, by name, one stream for each of ``inputs``. It
    returns the stream to record, several streams by name, or None. Set a uid on stateful operators to inspect their
    state.

    >>> from tidemill.common import Types
    >>> from tidemill.faults import Fault
    >>> def count(env, words):
    ...     return words.map(lambda word: (word, 1)).key_by(0).sum(1).uid("count")
    >>> with JobHarness(count, inputs=["words"]) as job:
    ...     job.epoch(words=["a", "b", "a"])
    ...     job.crash(Fault("manifest.before"), words=["a"])  # comes back from storage, with its input
    ...     job.run()
    ...     job.restart(parallelism=3)
    ...     job.epoch(words=["b"])
    ...     sorted(job.output()), job.state("count", "_reduce_state")["b"]
    ([('a', 1), ('a', 2), ('a', 3), ('b', 1), ('b', 2)], ('b', 2))
    """

    def __init__(
        self,
        build: Build,
        *,
        inputs: Iterable[str] | Mapping[str, Script] = (),
        input_parallelism: int | None = 1,
        parallelism: int = 2,
        workers: int = 2,
        placement: Placement | None = None,
        max_records: int = 1_000_000,
        configuration: Mapping[str, str] | None = None,
        storage: Storage | None = None,
        processing_time: int = 0,
        clock: Callable[[], int] | None = None,
        merge_after: int = 8,
    ) -> None:
        """``max_records`` limits an epoch of a bounded source. Deltas are merged after ``merge_after`` epochs.

        The duration of an epoch is not limited, unless ``execution.epoch.max-duration`` is configured. ``clock``
        returns the processing time, and replaces :meth:`set_processing_time`. ``inputs`` are names, or the
        :attr:`inputs` of another harness: this job then reads the same records.
        """
        # configuration
        self._build = build
        self._input_parallelism = input_parallelism
        self._parallelism = parallelism
        self._workers = workers
        self._placement = placement
        self._max_records = max_records
        self._configuration = dict(configuration or {})
        self._merge_after = merge_after
        # survives the job
        self.storage = storage or MemoryStorage()
        self.inputs = dict(inputs) if isinstance(inputs, Mapping) else {name: Script() for name in inputs}
        self._recordings: dict[str, Recording] = {}
        self._processing_time = processing_time
        self._clock = clock or (lambda: self._processing_time)
        self._metrics: MetricRegistry | None = None
        # transient
        self._coordinator: Coordinator | None = None
        self._start()

    # --- running

    def epoch(self, **records: Iterable[Any]) -> None:
        """Add these records to the inputs, and run one epoch. Raises the exceptions of user functions.

        In BATCH mode, the records are processed in :meth:`end`. After a failure the job is down until :meth:`restart`.
        Its input is kept: ``epoch()`` then processes it again.
        """
        for name, values in records.items():
            self.inputs[name].add(list(values))
        self._run_epoch()

    def run(self) -> None:
        """Run epochs until no input is left. A program with bounded sources runs to its end."""
        while self.has_input:
            self._run_epoch()

    def end(self) -> None:
        """End all inputs, and run until the job has ended, with a final watermark."""
        for script in self.inputs.values():
            script.ended = True
        while not self._finished:
            self._run_epoch()

    def set_processing_time(self, timestamp: int) -> None:
        """Set the processing time of the following epochs."""
        self._processing_time = timestamp

    def crash(self, fault: Fault, **records: Iterable[Any]) -> None:
        """Run one epoch with a fault, discard everything that is not durable, and restart."""
        try:
            with injected(fault):
                self.epoch(**records)
        except InjectedFaultError:
            pass
        else:
            raise AssertionError(f"the epoch did not reach {fault.point}, so the fault was not injected")
        self.restart(crashed=True)

    def restart(
        self,
        *,
        parallelism: int | None = None,
        workers: int | None = None,
        placement: Placement | None = None,
        build: Build | None = None,
        configuration: Mapping[str, str] | None = None,
        merge_after: int | None = None,
        crashed: bool = False,
    ) -> None:
        """Restart the job from its storage.

        The parallelism, the workers, the program, some configuration keys, and the number of epochs between merges can
        be changed. With ``crashed``, nothing of the running job is closed.
        """
        if not crashed:
            self.close()
        self._build = build or self._build
        self._configuration.update(configuration or {})
        self._parallelism = parallelism or self._parallelism
        self._workers = workers or self._workers
        self._placement = placement or self._placement
        self._merge_after = merge_after or self._merge_after
        self._start()

    def check_upgrade(
        self, build: Build | None = None, configuration: Mapping[str, str] | None = None
    ) -> UpgradeReport:
        """Report how another program or configuration would use the state that :meth:`restart` starts from."""
        manifests = ManifestLog(self.storage, _JOB_ID)
        head = manifests.read_head()
        if head is None:
            raise StateError("the job has committed nothing yet")
        running = self._build, self._configuration
        self._build = build or self._build
        self._configuration = {**self._configuration, **(configuration or {})}
        try:
            return report_upgrade(self._compile(), self.storage, head)
        finally:
            self._build, self._configuration = running

    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        """Request another parallelism, starting with the next epoch, as :meth:`JobClient.rescale` does.

        A restart uses the parallelism of the harness again.
        """
        return self._job.parallelism.request(parallelism)

    def savepoint(self, directory: str | os.PathLike[str]) -> str:
        """Take a savepoint of the last committed epoch, as :meth:`JobClient.trigger_savepoint` does; returns its path.

        A new harness with the same ``inputs`` starts from it if its configuration sets
        ``execution.state-recovery.path``.
        """
        self._running()
        future = self._job.savepoints.request(os.fspath(directory), Ending.GO_ON)
        self._loop.take_savepoints(cancel=lambda: None)
        return future.result()

    def kill_worker(self, worker: int, *, flushed: bool = True) -> None:
        """Kill a worker, which loses its memory. Its successor finds the files on its local disk.

        With ``flushed=False``, it finds only the data that RocksDB had already flushed from memory to disk.
        """
        self._engine.kill_worker(worker, flushed=flushed)

    def close(self) -> None:
        """Stop the job. Everything that it committed is kept."""
        if self._coordinator is not None:
            self._job.savepoints.settle()
            self._loop.close()
            self._coordinator.close()
            self._coordinator = None

    # --- looking

    def output(self, name: str = MAIN) -> list[Any]:
        """Return the committed records of a stream that ``build`` returned, by epoch, then by subtask of the sink."""
        return self._recordings[name].values()

    def recording(self, name: str = MAIN) -> Recording:
        """Return the committed records of a stream, by subtask or by epoch."""
        return self._recordings[name]

    @property
    def head(self) -> Manifest:
        """The last committed manifest."""
        return self._running().head

    def metrics(self) -> MetricSnapshot:
        """Return the metrics of the job. Counters include all committed epochs since the harness was created."""
        if self._metrics is None:
            raise RuntimeError("the job was never started")
        return self._metrics.snapshot()

    @property
    def has_input(self) -> bool:
        """Whether an epoch would have input now."""
        return not self._finished and self._loop.has_input

    @property
    def due(self) -> bool:
        """Whether a driver would run an epoch now: there is input, a processing-time timer is due, or an input without
        records becomes idle."""
        return self.has_input or (not self._finished and self._running().timer_due())

    @property
    def cold_starts(self) -> int:
        """The number of chains built since the (re)start, on all workers."""
        return sum(worker.opened for worker in self._engine.workers)

    def state(self, operator: str, name: str, namespace: Any = None) -> dict[Any, Any]:
        """Return the committed state of an operator (by uid or name), as a dict from key to value."""
        return self._committed().of(self._operator(operator).uid, name, namespace)

    def operator_state(self, operator: str, name: str) -> dict[int, Any]:
        """Return the committed operator state of an operator by subtask: lists, or dicts for broadcast state."""
        return self._committed().operator_state(self._operator(operator).uid, name)

    def timers(self, operator: str, domain: TimeDomain = TimeDomain.EVENT_TIME) -> list[tuple[int, Any]]:
        """Return the committed timers of an operator as (time, key)."""
        return self._committed().timers(self._operator(operator).uid, event_time=domain is TimeDomain.EVENT_TIME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- building blocks

    def _start(self) -> None:
        launch = self._launch = self._compile().restoring(self.storage)
        bundle = launch.bundle(self.storage)
        self._engine = LocalEngine(bundle, self._workers, self._placement)
        duration = launch.configuration.get(ExecutionOptions.EPOCH_MAX_DURATION).total_seconds()
        bounded = launch.configuration.contains(ExecutionOptions.EPOCH_MAX_DURATION)
        limit = EpochLimit(self._max_records, duration if bounded else None)
        settings = HarnessSettings(self._clock, limit, self._merge_after, self._metrics)
        job = self._job = JobAssembly(launch, self.storage, launch.parallelism(self._parallelism), harness=settings)
        self._metrics = job.metrics.registry
        coordinator = job.coordinator(bundle, self._engine)
        restored = coordinator.open()
        self._finished = restored is not None and restored.finished
        self._loop = job.open_loop(coordinator)
        self._coordinator = coordinator

    def _compile(self) -> Launch:
        configuration = Configuration()
        configuration.set(ExecutionOptions.TARGET, "local")
        configuration.set(ExecutionOptions.JOB_ID, _JOB_ID)
        configuration.set(PipelineOptions.PARALLELISM, self._parallelism)
        for key, value in self._configuration.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment(configuration)
        streams = {
            name: env.from_source(ScriptedSource(script, self._input_parallelism), None, name).uid(f"input-{name}")
            for name, script in self.inputs.items()
        }
        built = self._build(env, **streams)
        shown = {MAIN: built} if isinstance(built, DataStream) else dict(built or {})
        for name, stream in shown.items():
            recording = self._recordings.setdefault(name, Recording())
            stream.sink_to(RecordingSink(recording)).uid(f"output-{name}")
        return prepare(env._program(None), self._parallelism)

    def _run_epoch(self) -> None:
        self._running()
        try:
            manifest = self._loop.step()
        except BaseException as error:
            self._coordinator = None  # like a crashed driver: it is neither used again nor closed
            if isinstance(error, TidemillError):
                raise without_engine_frames(error)  # noqa: B904 - it is the same error
            raise
        self._finished = manifest is not None and manifest.finished

    def _running(self) -> Coordinator:
        if self._coordinator is None:
            raise RuntimeError("the job is down after a failure: call restart()")
        return self._coordinator

    def _committed(self) -> CommittedState:
        return CommittedState(self.storage, self._running().manifests)

    def _operator(self, name: str) -> OperatorPlan:
        operators = [operator for chain in self._launch.plan.chains for operator in chain.operators]
        for operator in operators:
            if name in (operator.uid, operator.name):
                return operator
        known = ", ".join(sorted(operator.name for operator in operators))
        raise StateError(f"no operator has the uid or name {name!r}; the operators are {known}")


def run_local(build: Build, **options: Any) -> list[Any]:
    """Run a program of bounded sources to its end and return the records of the stream that ``build`` returned.

    >>> run_local(lambda env: env.from_collection([1, 2, 3]).map(lambda n: 10 * n), max_records=1)
    [10, 20, 30]
    """
    with JobHarness(build, **options) as job:
        job.end()
        return job.output()
