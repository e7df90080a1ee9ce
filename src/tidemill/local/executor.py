"""``execution.target: local``: runs a program in this process, without Spark, so that breakpoints work in it."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.config import PipelineOptions
from tidemill.datastream.program.dependencies import local_path
from tidemill.datastream.program.execution import JobProgram
from tidemill.local.engine import LocalEngine
from tidemill.local.garbage import rarely_collecting
from tidemill.local.sources import LocalExecution, LocalSources
from tidemill.local.working_directory import working_in
from tidemill.runtime.driver.assembly import JobAssembly, open_job
from tidemill.runtime.driver.job import StopSignal
from tidemill.runtime.driver.launch import prepare
from tidemill.runtime.start.before_engine import check_before_engine
from tidemill.runtime.stored_input.parquet_source import remove_input
from tidemill.runtime.task.delivery import install, pack
from tidemill.runtime.task.scratch import scratch_directory

#: The parallelism if the program sets none: two, so that exchanges have an effect.
DEFAULT_PARALLELISM = 2


class LocalExecutor:
    """Runs programs in this process, except those that read or write Spark DataFrames."""

    def __init__(self, configuration: Configuration) -> None:
        """``configuration`` is unused: each program has its own copy of it."""

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program in a thread of this process."""
        dependencies = program.dependencies()
        for path in dependencies.files:
            _make_importable(path)
        launch = prepare(program, DEFAULT_PARALLELISM)
        sources = LocalSources(launch)
        configured = program.configuration.contains(PipelineOptions.PARALLELISM)
        parallelism = program.configuration.get(PipelineOptions.PARALLELISM) if configured else DEFAULT_PARALLELISM
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
            held.callback(_remove_input_read, job)

            def execution(stop: StopSignal) -> None:
                place = nullcontext() if installed.directory is None else working_in(installed.directory)
                with place, rarely_collecting():
                    job.launch.bring_input(job.storage)
                    reading = sources.store(job.launch, job.storage, parallelism)
                    opened = LocalExecution(sources, reading, job)
                    bundle = reading.bundle(job.storage, dict(opened.schemas))
                    engine = LocalEngine(bundle, workers=DEFAULT_PARALLELISM)
                    with job.execution(stop, bundle, engine) as coordinator:
                        job.run(coordinator, stop, reading, partial(opened.open_input, coordinator))

            return job.start(program.name, execution, held)


def _remove_input_read(job: JobAssembly) -> None:
    """Remove the stored rows of bounded sources, once the job has read all of them."""
    if job.finished:
        remove_input(job.storage)


def _make_importable(path: str) -> None:
    """Let functions import a file, or the contents of a directory or zip, as they can on Spark's workers."""
    given = local_path(path, "Python file")
    place = str(given.parent if given.suffix == ".py" else given)
    if place not in sys.path:
        sys.path.append(place)
