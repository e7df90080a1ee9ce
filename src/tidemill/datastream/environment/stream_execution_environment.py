"""The execution environment, in which a program is built and executed."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import islice
from typing import Any

from tidemill.common.configuration import Configuration
from tidemill.common.job_client import JobClient
from tidemill.common.job_execution_result import JobExecutionResult
from tidemill.common.reports.upgrade_report import UpgradeReport
from tidemill.config import PipelineOptions
from tidemill.config.unknown_keys import check_keys
from tidemill.connectors.collect import CollectSink
from tidemill.connectors.sinks import Sink
from tidemill.datastream.environment.dependencies import EnvironmentDependencies
from tidemill.datastream.environment.java_environment import JavaEnvironment
from tidemill.datastream.environment.outer_configuration import outer_configuration
from tidemill.datastream.environment.settings import EnvironmentSettings, python_files
from tidemill.datastream.environment.sources import EnvironmentSources
from tidemill.datastream.functions.user_line import find_user_line
from tidemill.datastream.program import execution
from tidemill.datastream.program.specs import SinkSpec
from tidemill.datastream.program.taken import for_driver, take
from tidemill.datastream.program.transformations import Transformation
from tidemill.datastream.streams.closeable_iterator import CloseableIterator
from tidemill.datastream.streams.dead_letters import with_dead_letters
from tidemill.errors import TidemillError, without_engine_frames

__all__ = ["StreamExecutionEnvironment"]


class StreamExecutionEnvironment(EnvironmentSettings, EnvironmentDependencies, EnvironmentSources):
    """Builds a program of sources, transformations and sinks, and executes it.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection(["to be", "or not to be"]).flat_map(str.split)
    >>> counts = words.map(lambda word: (word, 1)).key_by(0).sum(1)
    >>> print(env.explain())  # doctest: +ELLIPSIS
    Job 'Tidemill Streaming Job' ...
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(Configuration(configuration))
        check_keys(self._configuration.key_set(), strict=self._configuration.get(PipelineOptions.STRICT_CONFIGURATION))
        self._transformations: list[Transformation] = []
        self._collects = 0
        self._dead_letter_sink: Sink | None = None

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Creates an environment.

        The given settings take precedence over those that the program is started with: those of ``tidemill run``, or
        those in the YAML file that the environment variable ``TIDEMILL_CONF`` refers to.
        """
        merged = outer_configuration()
        return StreamExecutionEnvironment(merged if configuration is None else merged.add_all(configuration))

    @property
    def _j_stream_execution_environment(self) -> JavaEnvironment:
        """The few methods of Flink's Java environment that PyFlink programs call."""
        return JavaEnvironment(self, self._configuration)

    # --- execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Execute the program built so far and wait until it finishes. Raises the error if the job fails.

        The environment is empty afterwards: transformations added later belong to the next program. Interrupting the
        wait cancels the job.
        """
        __tracebackhide__ = True
        try:
            client = self.execute_async(job_name)
            try:
                return client.get_job_execution_result().result()
            except KeyboardInterrupt:
                client.cancel().result()
                raise
        except TidemillError as error:
            raise without_engine_frames(error)  # noqa: B904 - it is the same error

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program built so far, and return a client that monitors and controls the job.

        Errors in the program itself are raised here; the program is then kept in the environment.
        """
        __tracebackhide__ = True
        try:
            client = execution.submit(self._program(job_name))
        except TidemillError as error:
            raise without_engine_frames(error)  # noqa: B904 - it is the same error
        self._transformations = []
        return client

    def get_execution_plan(self) -> str:
        """The program as JSON in the format of Flink's plan: nodes with their predecessors and ship strategies.

        Neither this method nor :meth:`explain` changes the program.

        A parallelism of -1 is the default, which the cluster determines. -2 is the number of partitions of a Spark
        source.
        """
        return execution.plan_as_json(self._program(None))

    def explain(self) -> str:
        """A readable description of how the program will run: levels, chains, operators, exchanges."""
        return execution.plan_as_text(self._program(None))

    def check_upgrade(self, path: str | None = None) -> UpgradeReport:
        """Report what would happen to each stored state if this program started. Nothing is started or written.

        ``path`` is a savepoint, the directory of a job, or ``<directory of a job>/chk-<epoch>``. The default is
        ``execution.state-recovery.path`` if it is set, else the job's own directory (``execution.checkpointing.dir``,
        ``execution.job-id``). The text form of the report is a table of all states: restored, migrated, new, orphaned,
        dropped or refused. ``report.check()`` raises if the program could not start.

        Functions that can have state are opened and closed once in this process; states that they register later are
        shown as orphaned. Running a program with ``execution.state-recovery.dry-run: true`` prints the same report.
        """
        return execution.check_upgrade(self._program(None), path)

    def close(self) -> None:
        """Discard the program built so far."""
        self._transformations = []

    def set_dead_letter_sink(self, sink: Sink) -> None:
        """Set the sink for records at which operators with ``ErrorPolicy.dead_letter()`` fail. Not part of Flink.

        The sink receives :class:`PoisonRecord` objects. Without a sink, the records are written to files: see
        ``execution.dead-letter.dir``.
        """
        if not isinstance(sink, Sink):
            raise TypeError(f"a Sink is needed, not {type(sink).__name__}")
        self._dead_letter_sink = for_driver(sink, f"set_dead_letter_sink() ({find_user_line()})")

    # --- building blocks

    def _this(self) -> StreamExecutionEnvironment:
        return self

    def _register(self, transformation: Transformation) -> None:
        self._transformations.append(transformation)

    def _program(self, job_name: str | None) -> execution.JobProgram:
        """The program built so far with the current settings. Does not change the environment."""
        transformations = with_dead_letters(self._transformations, self._dead_letter_sink, self._configuration)
        return execution.JobProgram(
            tuple([self._configured(node) for node in transformations]),
            Configuration(self._configuration),
            execution.job_name(self._configuration, job_name),
            tuple(python_files(self._configuration)),
        )

    def _configured(self, node: Transformation) -> Transformation:
        """Apply the current settings to an operator; only sinks use them.

        A sink can be replaced by a copy, because no operator reads from it.
        """
        if not isinstance(given := node.taken.on_driver, SinkSpec):
            return node
        sink = given.sink.configured(self._configuration)
        if sink is given.sink:
            return node
        return replace(node, taken=take(SinkSpec(sink), f"operator {node.name!r} ({node.user_line})"))

    def _next_collect_uid(self) -> str:
        self._collects += 1
        return f"collect-{self._collects}"

    def _execute_and_collect(
        self, sink: CollectSink, job_name: str | None, limit: int | None
    ) -> CloseableIterator | list[Any]:
        client = self.execute_async(job_name)

        def stop() -> None:
            if not client.get_job_execution_result().done():
                with contextlib.suppress(TidemillError):  # the job may end on its own at this moment
                    client.cancel().result()

        results = CloseableIterator(execution.results_of(client, sink), stop)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))
