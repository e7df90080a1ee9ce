"""Submits a program for execution. This is the only place where the API calls the layers above it.

The API builds graphs and does not import the code that compiles or runs them. So a program can be built and tested
without Spark, and there are no circular imports. The compiler and the executors are therefore named here as strings and
loaded on demand; the configuration key ``execution.target`` selects the executor.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.reports.upgrade_report import UpgradeReport
from tidemill.config import PipelineOptions, RestOptions, StateRecoveryOptions
from tidemill.datastream.program.dependencies import Dependencies
from tidemill.datastream.program.target import target_of
from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import ConfigurationError

if TYPE_CHECKING:
    from tidemill.connectors.collect import CollectSink
    from tidemill.datastream.streams.data_stream import DataStream

#: ``module:attribute`` of the executor for each ``execution.target``.
EXECUTORS: Final[dict[str, str]] = {
    "spark": "tidemill.spark.executor:SparkExecutor",
    "local": "tidemill.local.executor:LocalExecutor",
}
_COMPILER: Final = "tidemill.graph.compiler:compile_job"
_PLAN_JSON: Final = "tidemill.graph.plan_json:plan_to_json"
_EXPLAIN: Final = "tidemill.graph.explain:explain_plan"
_CHECK_UPGRADE: Final = "tidemill.runtime.driver.dry_run:check_upgrade"
_DRY_RUN: Final = "tidemill.runtime.driver.dry_run:run_dry"
_REST_SERVER: Final = "tidemill.ops.rest.server:server_for"
_TO_DATAFRAME: Final = "tidemill.spark.output.dataframes:to_dataframe"

DEFAULT_JOB_NAME: Final = "Tidemill Streaming Job"

_taker: Callable[[JobProgram], JobClient] | None = None


@dataclass(frozen=True)
class JobProgram:
    """A program ready to be compiled and run: the operators registered with the environment, and its settings.

    ``transformations`` are the original objects of the program. They contain the parts that exist only on the driver
    (the data of a collection, a DataFrame, the results of a collecting sink). An executor looks them up by uid with
    ``tidemill.graph.uids.operators_by_uid``.
    """

    transformations: tuple[Transformation, ...]
    configuration: Configuration
    name: str
    python_files: tuple[str, ...] = field(default=())

    def dependencies(self) -> Dependencies:
        """What its functions need where they run. Raises :class:`ConfigurationError` if something does not exist."""
        return Dependencies.of(self.configuration, self.python_files)


class JobExecutor(Protocol):
    """Runs programs. Created with the configuration of the environment."""

    def __init__(self, configuration: Configuration) -> None: ...

    def execute_async(self, program: JobProgram) -> JobClient:
        """Compile and start a program. Returns as soon as it is submitted.

        Errors in the program (``GraphError``, ``SerializationError``) are raised here, not through the client. The
        client's result future completes after the last epoch is committed, sinks included.
        """
        ...


@runtime_checkable
class CollectingClient(Protocol):
    """A job client that fetches the results of ``execute_and_collect`` from a driver in another process."""

    def collected(self, uid: str) -> Iterator[Any]:
        """The results of the collecting sink with this uid until the job ends. Raises the error if the job fails."""
        ...


def job_name(configuration: Configuration, given: str | None) -> str:
    """The name of a job: the given name, else the configured name, else a default."""
    return given or configuration.get(PipelineOptions.NAME) or DEFAULT_JOB_NAME


def submit(program: JobProgram) -> JobClient:
    """Pass a program to the function registered with :func:`handing_over`, or :func:`run` it if there is none."""
    return (_taker or run)(program)


@contextmanager
def handing_over(taker: Callable[[JobProgram], JobClient]) -> Iterator[None]:
    """Pass the programs that are executed in this process to ``taker``, which may or may not :func:`run` them."""
    global _taker
    before, _taker = _taker, taker
    try:
        yield
    finally:
        _taker = before


def run(program: JobProgram) -> JobClient:
    """Run a program with the configured executor. The client of a dry run only reports whether it can start."""
    if program.configuration.get(StateRecoveryOptions.DRY_RUN):
        client: JobClient = _load(_DRY_RUN, "a dry run")(program)
        return client
    target = target_of(program.configuration)
    executor: JobExecutor = _load(EXECUTORS[target], f"execution.target: {target}")(program.configuration)
    if not program.configuration.get(RestOptions.ENABLED):
        return executor.execute_async(program)
    # Start the server before the job, so that configuration errors are raised before anything runs.
    server = _load(_REST_SERVER, "rest.enabled (pip install 'tidemill[ops]')")(program.configuration)
    client = executor.execute_async(program)
    server.show(client)
    return client


def check_upgrade(program: JobProgram, path: str | None) -> UpgradeReport:
    """Report what would happen to each state if a program started from a savepoint or checkpoint."""
    report: UpgradeReport = _load(_CHECK_UPGRADE, "an upgrade report")(program, path)
    return report


def to_dataframe(stream: DataStream, schema: Any, path: str | None, name: str | None) -> Any:
    """The records of a stream as a Spark DataFrame."""
    return _load(_TO_DATAFRAME, "to_dataframe()")(stream, schema, path, name)


def plan_as_json(program: JobProgram) -> str:
    """The compiled plan in the format of Flink's ``getExecutionPlan``."""
    text: str = _load(_PLAN_JSON, "the execution plan")(compile_program(program))
    return text


def plan_as_text(program: JobProgram) -> str:
    """The compiled plan in readable form."""
    text: str = _load(_EXPLAIN, "explain")(compile_program(program))
    return text


def compile_program(program: JobProgram) -> Any:
    """The plan of a program, a ``tidemill.graph.plan.JobPlan``."""
    return _load(_COMPILER, "the compiler")(program.transformations, program.configuration, program.name)


def results_of(client: JobClient, sink: CollectSink) -> Iterator[Any]:
    """The records that arrive in a collecting sink until the job ends. Raises the error if the job fails."""
    if isinstance(client, CollectingClient):
        return client.collected(sink.uid)
    results = sink.results

    def ended(future: Any) -> None:
        error = future.exception()
        if error is None:
            results.finish()
        else:
            results.fail(error)

    client.get_job_execution_result().add_done_callback(ended)
    return iter(results)


def _load(entry: str, wanted_for: str) -> Any:
    """Load the object that a ``module:attribute`` string refers to."""
    module, _, attribute = entry.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{wanted_for} needs {entry}, which cannot be loaded: {error}. Install the missing package, or use another "
            f"execution.target (one of {', '.join(EXECUTORS)})."
        ) from error
