"""Methods that end a stream: sinks, and methods that return the records to the program."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, overload

from tidemill.connectors.base import SupportsPreprocessing
from tidemill.connectors.collect import CollectSink
from tidemill.connectors.function_sink import FunctionSink
from tidemill.connectors.print_sink import PrintSink, text_of
from tidemill.connectors.sinks import Sink
from tidemill.datastream.functions.basic import SinkFunction
from tidemill.datastream.program import execution
from tidemill.datastream.program.specs import SinkSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.datastream.streams.arguments import type_name
from tidemill.datastream.streams.closeable_iterator import CloseableIterator
from tidemill.datastream.streams.data_stream_sink import DataStreamSink
from tidemill.without_effect import without_effect

if TYPE_CHECKING:
    from tidemill.datastream.streams.cached_data_stream import CachedDataStream
    from tidemill.datastream.streams.data_stream import DataStream


class StreamEnds(abc.ABC):
    """The methods of a stream that end it."""

    @abc.abstractmethod
    def _this(self) -> DataStream:
        """The stream."""

    def add_sink(self, sink_func: SinkFunction | Sink) -> DataStreamSink:
        """Call a :class:`SinkFunction` for each record, with at-least-once semantics; or write to a sink."""
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        if not isinstance(sink_func, SinkFunction):
            raise TypeError(f"add_sink() needs a SinkFunction, not {type_name(sink_func)}")
        return self._end(f"Sink: {type(sink_func).__name__}", FunctionSink(sink_func))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream to a :class:`tidemill.connectors.sinks.Sink`."""
        if not isinstance(sink, Sink):
            raise TypeError(f"sink_to() needs a Sink, not {type_name(sink)}")
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        if transformer is not None:
            stream: DataStream = transformer.apply(self._this())
            return stream._end(f"Sink: {type(sink).__name__}", sink)
        return self._end(f"Sink: {type(sink).__name__}", sink)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records of each committed epoch in the process that runs the program."""
        return self._end("Sink: Print to Std. Out", PrintSink(sink_identifier, text_of(self._this()._type)))

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Execute the program and return the records of this stream.

        Without ``limit``, returns an iterator that must be closed (use ``with``). With ``limit``, returns a list of at
        most that many records and then cancels the job. The records of one subtask are in the order it emitted them.

        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> with env.from_sequence(1, 3).execute_and_collect() as numbers:
        ...     sum(numbers)
        6
        >>> env.from_sequence(1, 1000).execute_and_collect(limit=2)
        [1, 2]
        """
        if limit is not None and limit < 1:
            raise ValueError(f"the limit must be at least 1, not {limit}")
        environment = self._this()._environment
        sink = CollectSink(environment._next_collect_uid())
        self._end("Sink: Collect", sink).uid(sink.uid)
        return environment._execute_and_collect(sink, job_execution_name, limit)

    def cache(self) -> CachedDataStream:
        """Accepted without effect: each program that reads the returned stream computes it again."""
        from tidemill.datastream.streams.cached_data_stream import CachedDataStream

        without_effect("cache()", "each program that reads the stream computes it again; to store it, use a sink")
        stream = self._this()
        return CachedDataStream(stream._environment, stream._upstreams, stream._type)

    def to_dataframe(self, schema: Any = None, path: str | None = None, job_execution_name: str | None = None) -> Any:
        """Return the records as a Spark DataFrame, each exactly once. Not part of Flink.

        A bounded program is executed immediately, and the DataFrame contains its results. To an unbounded program a
        sink is added, and a streaming DataFrame of the committed records is returned; start the program with
        ``execute_async``. The records are stored in ``path`` as Parquet, by default in a temporary directory that
        exists as long as this process. ``schema`` is Spark DDL or a ``StructType``; by default it is derived from the
        type of the stream.
        """
        return execution.to_dataframe(self._this(), schema, path, job_execution_name)

    def _end(self, name: str, sink: Sink) -> DataStreamSink:
        """Add a sink that reads this stream. Sinks are not keyed, even if the stream is partitioned by key."""
        stream = self._this()
        operator = Transformation.of(name, SinkSpec(sink), (stream._upstreams,), output_type=stream._type)
        stream._environment._register(operator)
        return DataStreamSink(operator)
