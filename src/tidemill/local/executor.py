"""``execution.target: local``: runs a program in this process, without Spark, so that breakpoints work in it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.connectors.sources import SplitSource
from tidemill.datastream.program.dependencies import local_path
from tidemill.datastream.program.execution import JobProgram
from tidemill.errors import GraphError
from tidemill.local.engine import LocalEngine
from tidemill.local.working_directory import working_in
from tidemill.runtime.driver.assembly import open_job
from tidemill.runtime.driver.job import StopSignal
from tidemill.runtime.driver.launch import prepare
from tidemill.runtime.start.before_engine import check_before_engine
from tidemill.runtime.task.delivery import install, pack
from tidemill.runtime.task.scratch import scratch_directory

#: The parallelism if the program sets none: two, so that exchanges have an effect.
DEFAULT_PARALLELISM = 2


class LocalExecutor:
    """Runs programs whose sources are plain Python."""

    def __init__(self, configuration: Configuration) -> None:
        """``configuration`` is unused: each program has its own copy of it."""

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program in a thread of this process."""
        dependencies = program.dependencies()
        for path in dependencies.files:
            _make_importable(path)
        launch = prepare(program, DEFAULT_PARALLELISM)
        for chain, source in launch.sources().items():
            if not isinstance(source, SplitSource):
                raise GraphError(
                    f"source {launch.plan.chains[chain].head.name!r} is read by Spark, which is not available with "
                    "execution.target: local: remove this option"
                )
        with ExitStack() as held:
            launch = replace(launch, checked=check_before_engine(launch.configuration, held, launch.job_id))

            def folder() -> Path:
                found, remove = scratch_directory()
                held.callback(remove)
                return found

            packed = pack(replace(dependencies, files=()), folder)
            installed = install(packed.delivery, packed.files.__getitem__, packed.folder / "installed")
            installed.use()
            job = open_job(launch, DEFAULT_PARALLELISM, held)
            bundle = job.launch.bundle(job.storage)

            def execution(stop: StopSignal) -> None:
                engine = LocalEngine(bundle, workers=DEFAULT_PARALLELISM)
                place = nullcontext() if installed.directory is None else working_in(installed.directory)
                with place, job.execution(stop, bundle, engine) as coordinator:
                    job.run(coordinator, stop)

            return job.start(program.name, execution, held)


def _make_importable(path: str) -> None:
    """Let functions import a file, or the contents of a directory or zip, as they can on Spark's workers."""
    given = local_path(path, "Python file")
    place = str(given.parent if given.suffix == ".py" else given)
    if place not in sys.path:
        sys.path.append(place)
