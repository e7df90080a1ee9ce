"""A driver of a simulated job: the production coordinator on a simulated cluster, epoch by epoch."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions, PipelineOptions, RocksDBOptions, StateOptions
from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment
from tidemill.local.engine import Placement
from tidemill.runtime.driver.assembly import HarnessSettings, JobAssembly
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.epoch_loop import EpochLoop
from tidemill.runtime.driver.launch import Launch, prepare
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.task.pieces import PieceForm
from tidemill.runtime.task.warm import WarmChains
from tidemill.testing.simulation.cluster import SimulatedCluster
from tidemill.testing.simulation.output import LoggedSink, SystemSink
from tidemill.testing.simulation.programs import SHAPES, WATERMARKS, Input, InputSource, Second
from tidemill.testing.simulation.trouble import EPOCH
from tidemill.testing.simulation.world import World

JOB_ID = "simulation"
#: The processing time between two epochs, in milliseconds.
_TICK = 1000


@dataclass(frozen=True)
class Settings:
    """The settings that are drawn from the seed, besides shape, input and faults."""

    parallelism: int
    max_parallelism: int
    workers: int
    placement: str
    parcel_size: int
    inline_limit: int
    fan_in: int
    smallest_tier: int
    slice_bytes: int
    budget: int
    drops: bool
    collects: bool
    logs: bool
    backend: str


class RestartError(Exception):
    """Requests a restart of the job, possibly with another parallelism."""

    def __init__(self, parallelism: int) -> None:
        super().__init__(f"with parallelism {parallelism}")
        self.parallelism = parallelism


def placement_of(settings: Settings) -> Placement:
    """Return a placement: subtasks always run on the same worker, on all workers in turn, or on random workers."""
    workers = settings.workers
    if settings.placement == "sticky":
        return lambda epoch, level, partition: partition % workers
    if settings.placement == "moving":
        return lambda epoch, level, partition: (epoch + level + partition) % workers
    return lambda epoch, level, partition: random.Random(f"{epoch} {level} {partition}").randrange(workers)


def compile_shape(world: World, shape: str, inputs: dict[str, Input], settings: Settings, parallelism: int) -> Launch:
    """Compile the program of a shape, which reads the inputs and writes to the world's output system."""
    configuration = Configuration()
    configuration.set(ExecutionOptions.TARGET, "local")
    configuration.set(ExecutionOptions.JOB_ID, JOB_ID)
    configuration.set(PipelineOptions.PARALLELISM, parallelism)
    configuration.set(PipelineOptions.MAX_PARALLELISM, settings.max_parallelism)
    configuration.set(StateOptions.BACKEND, settings.backend)
    configuration.set(RocksDBOptions.LOCAL_DIRECTORIES, world.disks.folder)
    configuration.set(RocksDBOptions.COMPACTION_STYLE, "NONE")  # nothing is written in the background
    env = StreamExecutionEnvironment(configuration)
    watermarks = WATERMARKS.with_timestamp_assigner(Second())
    streams = {
        name: env.from_source(InputSource(given, given.parallelism, given.batch), watermarks, name).uid(f"input-{name}")
        for name, given in inputs.items()
    }
    for name, stream in SHAPES[shape].build(streams).items():
        stream.sink_to(SystemSink(world.output.name)).uid(f"sink-{name}")
        if settings.logs and name == "main":
            stream.sink_to(LoggedSink(world.output.name, settings.inline_limit)).uid("sink-logged")
        if settings.collects and name == "main":
            stream.sink_to(world.collected).uid("collected")
    return prepare(env._program("simulation"), parallelism)


class SimulatedDriver:
    """A process that runs the job until an event ends it."""

    def __init__(
        self,
        world: World,
        shape: str,
        inputs: dict[str, Input],
        settings: Settings,
        parallelism: int,
        earlier: SimulatedDriver | None = None,
    ) -> None:
        """``earlier`` is a failed execution in the same process, whose workers and client requests are taken over."""
        # configuration
        self._world = world
        self._settings = settings
        self._started_with = parallelism
        # transient
        launch = self._launch = compile_shape(world, shape, inputs, settings, parallelism)
        self._parallelism: JobParallelism = launch.parallelism(parallelism) if earlier is None else earlier._parallelism
        workers = [WarmChains(settings.budget) for _ in range(settings.workers)] if earlier is None else earlier.workers
        bundle = dataclasses.replace(
            launch.bundle(world.storage), parcel_size=settings.parcel_size, form=PieceForm(settings.inline_limit)
        )
        self.cluster = SimulatedCluster(
            bundle,
            placement_of(settings),
            workers,
            world.meet,
            world.tell,
            world.enter,
            world.disks.lose,
            random.Random(world.dice.random()),
            budget=settings.budget,
            drops=settings.drops,
        )
        settled = HarnessSettings(
            clock=lambda: _TICK * (self.coordinator.head.epoch + 1),
            limit=EpochLimit(1_000_000, None),
            fan_in=settings.fan_in,
        )
        self._job = JobAssembly(launch, world.storage, self._parallelism, harness=settled)
        self.coordinator = self._job.coordinator(bundle, self.cluster)
        self.sinks = tuple(name.removeprefix("sink-") for name in launch.committers() if name.startswith("sink-"))
        self._loop: EpochLoop | None = None
        self._finished = False

    @property
    def workers(self) -> list[WarmChains]:
        """The worker processes, with their warm chains."""
        return self.cluster.workers

    def run(self, epochs: int | None = None) -> None:
        """Run epochs until all input is processed, or at most ``epochs`` of them."""
        loop = self._loop or self._open()
        while epochs is None or epochs > 0:
            if self._finished or not (loop.finished or loop.has_input):
                return
            self._between_epochs()
            manifest = loop.step()
            if manifest is None:
                raise AssertionError("a simulated job runs in STREAMING mode")
            self._finished = manifest.finished
            self._world.tell(
                f"epoch {manifest.epoch} is done: slot {manifest.slot} of {manifest.lineage}, rerun {manifest.rerun}, "
                f"{len(manifest.pieces)} pieces, {len(manifest.runs)} runs, "
                f"{sum(manifest.parallelism.values())} subtasks"
            )
            if epochs is not None:
                epochs -= 1

    def _open(self) -> EpochLoop:
        restored = self.coordinator.open()
        head = self.coordinator.head
        self._finished = head.finished
        loop = self._loop = self._job.open_loop(self.coordinator)
        self._world.tell(
            f"a driver took over: lineage {self.coordinator.lineage}, from epoch {head.epoch}, "
            f"parallelism {self._started_with}" + ("" if restored is not None else ", a new job")
        )
        return loop

    def _between_epochs(self) -> None:
        trouble = self._world.meet(EPOCH)
        if trouble is None:
            return
        if trouble.what == "worker lost":
            self.cluster.kill_worker(trouble.choice % self._settings.workers)
            return
        wanted = 1 + trouble.choice % min(6, self._settings.max_parallelism)
        if trouble.what == "live rescale":
            self._parallelism.request(wanted)
            return
        self.coordinator.close()
        raise RestartError(wanted if trouble.what == "rescale" else self._started_with)
