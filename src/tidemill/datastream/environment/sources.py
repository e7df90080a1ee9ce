"""Methods that create streams from collections, sequences, DataFrames, files and other sources."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.config import PipelineOptions
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.file_system.source import STRICT, InputFormat, text_options
from tidemill.connectors.number_seq import NumberSequenceSource
from tidemill.connectors.socket_text import SocketTextSource
from tidemill.connectors.sources import DataFrameSource, FormatSource, Source, SplitSource
from tidemill.datastream.functions.basic import SourceFunction
from tidemill.datastream.functions.state_descriptors import TypeSpec, resolve_type
from tidemill.datastream.program.ingestion_time import ingestion_time_strategy
from tidemill.datastream.program.specs import SourceSpec
from tidemill.datastream.program.transformations import Transformation, Upstream
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.datastream.time_characteristic import TimeCharacteristic
from tidemill.errors import GraphError, TypeMismatchError

if TYPE_CHECKING:
    from tidemill.datastream.environment.stream_execution_environment import StreamExecutionEnvironment


class EnvironmentSources(abc.ABC):
    """The methods of an environment that create a stream."""

    @abc.abstractmethod
    def _this(self) -> StreamExecutionEnvironment:
        """The environment."""

    @abc.abstractmethod
    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """The notion of time of the program."""

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None,
        source_name: str,
        type_info: TypeSpec = None,
    ) -> DataStream:
        """Create a stream from a source. Watermarks are generated per split of the source.

        >>> from tidemill.common import WatermarkStrategy
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> from tidemill.datastream.connectors.number_seq import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
        >>> numbers.get_type()
        Long
        """
        if not isinstance(source, Source):
            raise TypeError(f"from_source() needs a Source, not {type(source).__name__}")
        if watermark_strategy is not None and not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"from_source() needs a WatermarkStrategy, not {type(watermark_strategy).__name__}")
        source = source.resolved()
        declared = None if type_info is None else resolve_type(type_info)
        if declared is not None and isinstance(source, (FormatSource, DataFrameSource)):
            source = dataclasses.replace(source, type_info=declared)
        if watermark_strategy is None and self.get_stream_time_characteristic() is TimeCharacteristic.IngestionTime:
            watermark_strategy = ingestion_time_strategy()
        if watermark_strategy is None and isinstance(source, (FormatSource, DataFrameSource)) and source.partition_by:
            raise GraphError(
                f"source {source_name!r} sets partition_by, but has no watermark strategy that could use it: pass the "
                "strategy to the source, not to assign_timestamps_and_watermarks() after it"
            )
        found: TypeInformation | None = declared or getattr(source, "type_info", None)
        operator = Transformation.of(
            f"Source: {source_name}",
            SourceSpec(source, watermark_strategy),
            output_type=found,
            parallelism=source.parallelism if isinstance(source, SplitSource) else None,
        )
        return DataStream(self._this(), (Upstream(operator),), found)

    def add_source(
        self, source_func: Source | SourceFunction, source_name: str = "Custom Source", type_info: TypeSpec = None
    ) -> DataStream:
        """Create a stream from a source, without watermarks."""
        if not isinstance(source_func, Source):
            raise TypeError(
                f"add_source() cannot run {type(source_func).__name__}: it needs a FlinkKafkaConsumer or a Source. To "
                "write a source in Python, extend SplitSource (docs/connectors/custom-sources.md)"
            )
        return self.from_source(source_func, None, source_name, type_info)

    def create_input(self, input_format: InputFormat, type_info: TypeSpec = None) -> DataStream:
        """Create a stream from an input format, such as ``AvroInputFormat``, without watermarks."""
        if not isinstance(input_format, InputFormat):
            raise TypeError(
                f"create_input() needs an input format of Tidemill, not {type(input_format).__name__}: read files with "
                "from_source() and a FileSource"
            )
        return self.from_source(input_format, None, "Custom Source", type_info)

    def from_collection(self, collection: Iterable[Any], type_info: TypeSpec = None) -> DataStream:
        """Create a stream from the elements of a collection. One subtask reads them in order.

        With a type, every element is checked immediately and converted to the form of the type: for a row type, tuples
        become rows. An int that is too large for ``BYTE``, ``SHORT`` or ``INT`` keeps its lowest bits, as in Flink, or
        is an error if ``pipeline.strict-types`` is true.

        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()])).get_type()
        TupleTypeInfo(String, Integer)
        """
        elements = list(collection)
        declared = None if type_info is None else resolve_type(type_info)
        if declared is not None:
            strict = self._this().get_configuration().get(PipelineOptions.STRICT_TYPES)
            elements = _checked(elements, declared, strict)
        return self.from_source(CollectionSource(elements), None, "Collection Source", declared)

    def from_elements(self, *elements: Any, type_info: TypeSpec = None) -> DataStream:
        """Create a stream from the given elements. See :meth:`from_collection`."""
        return self.from_collection(elements, type_info)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """Create a stream of the numbers from ``start`` to ``end``, inclusive. They are read in parallel."""
        return self.from_source(NumberSequenceSource(start, end), None, "Sequence Source")

    def generate_sequence(self, start: int, end: int) -> DataStream:
        """Older name of :meth:`from_sequence`."""
        return self.from_sequence(start, end)

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream:
        """Create a stream from the lines that a server sends. Lines in transit are lost if the job fails.

        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.socket_text_stream("localhost", 9999).get_name()
        'Source: Socket Stream'
        """
        return self.from_source(SocketTextSource(hostname, port, delimiter, max_retry), None, "Socket Stream")

    # --- through Spark

    def from_dataframe(
        self,
        df: Any,
        type_info: TypeSpec = None,
        watermark_strategy: WatermarkStrategy | None = None,
        partition_by: str | Sequence[str] = (),
    ) -> DataStream:
        """Create a stream from a Spark DataFrame, batch or streaming.

        Records are rows with the names of the columns. If ``type_info`` is a tuple they are tuples, and if it is
        another type they are the values of the only column.

        The columns in ``partition_by``, such as Kafka's ``["topic", "partition"]``, identify the permanent partition of
        the source that a row comes from. Watermarks are then generated per partition, and the lowest one is used.
        """
        if not hasattr(df, "isStreaming") or not hasattr(df, "schema"):
            raise TypeError(f"from_dataframe() needs a Spark DataFrame, not {type(df).__name__}")
        declared = None if type_info is None else resolve_type(type_info)
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        source = DataFrameSource(df, declared, bounded=not df.isStreaming, partition_by=columns)
        return self.from_source(source, watermark_strategy, "DataFrame", declared)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """Create a stream from the lines of a text file, or of all files in a directory.

        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.read_text_file("/data/words.txt").get_type()
        String
        """
        return self.read_format("text", file_path, options=dict(text_options(charset_name)), type_info=Types.STRING())

    def read_csv(
        self,
        path: str,
        schema: str,
        options: Mapping[str, str] | None = None,
        watch: bool = False,
        type_info: TypeSpec = None,
    ) -> DataStream:
        """Create a stream from CSV files. ``schema`` is in Spark's DDL form: ``"id STRING, amount DOUBLE"``.

        A line that does not match the schema fails the job, and the error contains the line. With the option ``mode``,
        Spark replaces such a line by nulls (``PERMISSIVE``) or drops it (``DROPMALFORMED``).

        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.read_csv("/data/orders", "id STRING, amount DOUBLE", {"header": "true"}, watch=True)
        >>> orders.get_name()
        'Source: csv /data/orders'
        """
        return self.read_format("csv", path, schema, _strict(options), watch, type_info)

    def read_json(
        self,
        path: str,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
        watch: bool = False,
        type_info: TypeSpec = None,
    ) -> DataStream:
        """Create a stream from files with one JSON object per line.

        Lines that do not match the schema are handled as in :meth:`read_csv`.
        """
        return self.read_format("json", path, schema, _strict(options), watch, type_info)

    def read_parquet(
        self,
        path: str,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
        watch: bool = False,
        type_info: TypeSpec = None,
    ) -> DataStream:
        """Create a stream from Parquet files."""
        return self.read_format("parquet", path, schema, options, watch, type_info)

    def read_format(
        self,
        format_name: str,
        path: str | None = None,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
        watch: bool = False,
        type_info: TypeSpec = None,
    ) -> DataStream:
        """Create a stream from any format that Spark can read.

        It is read with ``spark.read.format(...)``, or with ``readStream`` if ``watch`` is true. The stream is then
        unbounded: files that appear later are also read. Each path is read once, regardless of its timestamps. A schema
        is required.
        """
        if watch and schema is None and path is not None and format_name != "text":
            raise GraphError(
                f"watching {path!r} as {format_name} needs a schema, such as schema='id STRING, amount DOUBLE': "
                "Spark cannot infer one from files that do not exist yet"
            )
        declared = None if type_info is None else resolve_type(type_info)
        source = FormatSource(
            format=format_name,
            path=path,
            options=dict(options or {}),
            schema=schema,
            type_info=declared,
            bounded=not watch,
        )
        return self.from_source(source, None, f"{format_name} {path}" if path else format_name, declared)


def _strict(options: Mapping[str, str] | None) -> dict[str, str]:
    """Adds the option that makes malformed input an error, unless the program sets ``mode`` itself."""
    given = dict(options or {})
    return given if "mode" in map(str.lower, given) else {**STRICT, **given}


def _checked(elements: list[Any], type_info: TypeInformation, strict: bool) -> list[Any]:
    shape = type_info.shaper() if strict else type_info.coercer_of_literals()
    try:
        return shape(elements)
    except TypeMismatchError:
        for index, element in enumerate(elements):
            try:
                shape([element])
            except TypeMismatchError as error:
                raise TypeMismatchError(f"from_collection(): element {index}: {error}") from None
        raise
