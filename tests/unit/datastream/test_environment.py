"""The environment: settings, sources, and the way to an executor."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.common import (
    CompletableFuture,
    Configuration,
    Duration,
    Encoder,
    JobClient,
    RestartStrategies,
    Row,
    Types,
    WatermarkStrategy,
)
from tidemill.config import ExecutionOptions, PipelineOptions
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.sources import DataFrameSource, FormatSource
from tidemill.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from tidemill.datastream.connectors.file_system import FileSource, RollingPolicy, StreamFormat, StreamingFileSink
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.datastream.formats.csv import CsvReaderFormat, CsvSchema
from tidemill.datastream.program import execution
from tidemill.datastream.program.execution import JobProgram
from tidemill.datastream.program.specs import SourceSpec
from tidemill.errors import ConfigurationError, GraphError, JobExecutionError, TypeMismatchError


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def source_of(stream: Any) -> Any:
    spec = stream._operator("test").spec
    assert isinstance(spec, SourceSpec)
    return spec.source


class TestSettings:
    def test_they_are_in_the_configuration(self, env: StreamExecutionEnvironment) -> None:
        env.set_parallelism(3).set_max_parallelism(64).set_runtime_mode(RuntimeExecutionMode.BATCH)
        env.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE).set_buffer_timeout(7)
        env.set_default_savepoint_directory("/sp").disable_operator_chaining().enable_changelog_state_backend(True)
        assert env.get_configuration().to_dict() == {
            "parallelism.default": "3",
            "pipeline.max-parallelism": "64",
            "execution.runtime-mode": "BATCH",
            "execution.checkpointing.interval": env.get_configuration().to_dict()["execution.checkpointing.interval"],
            "execution.checkpointing.mode": "AT_LEAST_ONCE",
            "execution.buffer-timeout.interval": "7 ms",
            "execution.checkpointing.savepoint-dir": "/sp",
            "pipeline.operator-chaining.enabled": "false",
            "state.changelog.enabled": "true",
        }
        assert (env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout()) == (3, 64, 7)
        assert env.get_checkpoint_interval() == 5000
        assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
        assert not env.is_chaining_enabled()

    def test_a_configuration_is_copied(self) -> None:
        configuration = Configuration().set_string("parallelism.default", "2")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(9)
        assert configuration.get(PipelineOptions.PARALLELISM) == 2
        env.configure(configuration)
        assert env.get_parallelism() == 2

    def test_impossible_values(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(ConfigurationError):
            env.set_parallelism(0)
        with pytest.raises(ConfigurationError):
            env.set_max_parallelism(1 << 20)

    def test_default_parallelism(self, env: StreamExecutionEnvironment) -> None:
        env.set_default_local_parallelism(5)
        assert env.get_parallelism() == 5
        assert "parallelism.default" not in env.get_configuration().to_dict()

    def test_restart_strategy(self, env: StreamExecutionEnvironment) -> None:
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 100))
        assert env.get_restart_strategy() == RestartStrategies.fixed_delay_restart(3, 100)

    def test_time_characteristic(self, env: StreamExecutionEnvironment) -> None:
        assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
        env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
        assert env.get_config().get_auto_watermark_interval() == 0
        env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
        assert env.get_config().get_auto_watermark_interval() == 200
        assert env.from_collection([1])._operator("test").spec.watermarks is not None

    def test_checkpoint_config(self, env: StreamExecutionEnvironment) -> None:
        config = env.get_checkpoint_config()
        assert not config.is_checkpointing_enabled()
        assert config.get_checkpoint_interval() == -1
        config.set_checkpoint_interval(1000).set_checkpoint_timeout(2000).set_min_pause_between_checkpoints(30)
        config.set_max_concurrent_checkpoints(2).set_tolerable_checkpoint_failure_number(3)
        config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        config.enable_unaligned_checkpoints().set_aligned_checkpoint_timeout(Duration.of_millis(9))
        config.set_force_unaligned_checkpoints().set_checkpoint_storage_dir("/cp")
        again = env.get_checkpoint_config()
        assert again.is_checkpointing_enabled()
        assert (again.get_checkpoint_timeout(), again.get_min_pause_between_checkpoints()) == (2000, 30)
        assert (again.get_max_concurrent_checkpoints(), again.get_tolerable_checkpoint_failure_number()) == (2, 3)
        assert again.is_externalized_checkpoints_enabled()
        assert again.get_aligned_checkpoint_timeout() == Duration.of_millis(9)
        assert env.is_unaligned_checkpoints_enabled()
        assert env.is_force_unaligned_checkpoints()
        assert not again.is_fail_on_checkpointing_errors()
        assert again.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0
        storage = again.get_checkpoint_storage()
        assert isinstance(storage, FileSystemCheckpointStorage)
        assert storage.get_checkpoint_path() == "/cp"

    def test_state_backends(self, env: StreamExecutionEnvironment) -> None:
        assert env.get_state_backend() is None
        rocks = EmbeddedRocksDBStateBackend(True)
        rocks.set_db_storage_paths("/a", "/b")
        rocks.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
        env.set_state_backend(rocks)
        settings = env.get_configuration().to_dict()
        assert settings["state.backend.type"] == "rocksdb"
        assert settings["state.backend.rocksdb.localdir"] == "/a,/b"
        assert settings["state.backend.rocksdb.predefined-options"] == "FLASH_SSD_OPTIMIZED"
        assert isinstance(env.get_state_backend(), EmbeddedRocksDBStateBackend)
        env.set_state_backend(HashMapStateBackend())
        assert isinstance(env.get_state_backend(), HashMapStateBackend)

    def test_legacy_state_backends(self, env: StreamExecutionEnvironment) -> None:
        env.set_state_backend(FsStateBackend("file:///cp"))
        assert env.get_configuration().to_dict()["execution.checkpointing.dir"] == "file:///cp"
        env.set_state_backend(RocksDBStateBackend("file:///rocks"))
        assert env.get_configuration().to_dict()["state.backend.type"] == "rocksdb"
        env.set_state_backend(MemoryStateBackend())
        assert isinstance(env.get_checkpoint_config().get_checkpoint_storage(), JobManagerCheckpointStorage)

    def test_jars_add_up(self, env: StreamExecutionEnvironment) -> None:
        env.add_jars("a.jar")
        env.add_jars("b.jar", "c.jar")
        assert env.get_configuration().to_dict()["pipeline.jars"] == "a.jar;b.jar;c.jar"


class TestSources:
    def test_collection(self, env: StreamExecutionEnvironment) -> None:
        stream = env.from_collection(iter([1, 2]), Types.LONG())
        assert isinstance(source_of(stream), CollectionSource)
        assert stream._operator("test").parallelism == 1
        assert stream.get_type() == Types.LONG()

    def test_collections_are_checked_against_their_type(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(TypeMismatchError, match="element 1"):
            env.from_collection([1, "two"], Types.LONG())

    def test_tuples_become_rows_where_the_type_is_a_row(self, env: StreamExecutionEnvironment) -> None:
        inner = Types.ROW_NAMED(["x"], [Types.INT()])
        row_type = Types.ROW_NAMED(["id", "inner"], [Types.STRING(), inner])
        source = source_of(env.from_collection([("a", (1,)), Row(id="b", inner=Row(x=2))], row_type))
        splits = source.create_enumerator(None).next_splits(1, 10)
        assert [value for batch in source.read(splits[0]) for value in batch.values] == [
            Row(id="a", inner=Row(x=1)),
            Row(id="b", inner=Row(x=2)),
        ]

    def test_sequence_and_elements(self, env: StreamExecutionEnvironment) -> None:
        numbers = env.from_sequence(1, 3)
        assert isinstance(source_of(numbers), NumberSequenceSource)
        assert numbers.get_type() == Types.LONG()
        assert numbers._operator("test").parallelism is None
        assert env.generate_sequence(1, 3).get_type() == Types.LONG()
        assert source_of(env.from_elements(1, 2)).create_enumerator(None).next_splits(1, 9)[0].payload == [1, 2]

    def test_dataframes(self, env: StreamExecutionEnvironment) -> None:
        batch = source_of(env.from_dataframe(SimpleNamespace(isStreaming=False, schema=None)))
        stream = source_of(env.from_dataframe(SimpleNamespace(isStreaming=True, schema=None), Types.STRING()))
        assert isinstance(batch, DataFrameSource)
        assert (batch.bounded, stream.bounded, stream.type_info) == (True, False, Types.STRING())
        with pytest.raises(TypeError, match="DataFrame"):
            env.from_dataframe([1])

    def test_partitions_of_dataframes(self, env: StreamExecutionEnvironment) -> None:
        frame = SimpleNamespace(isStreaming=True, schema=None)
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        named = source_of(env.from_dataframe(frame, None, strategy, partition_by=["topic", "partition"]))
        assert named.partition_by == ("topic", "partition")
        assert pickle.loads(pickle.dumps(named)).partition_by == named.partition_by
        assert source_of(env.from_dataframe(frame, None, strategy, partition_by="part")).partition_by == ("part",)
        with pytest.raises(GraphError, match=r"sets partition_by.* no watermark strategy"):
            env.from_dataframe(frame, partition_by="part")

    def test_formats(self, env: StreamExecutionEnvironment) -> None:
        text = source_of(env.read_text_file("/in", "latin-1"))
        assert (text.format, text.path, text.type_info) == ("text", "/in", Types.STRING())
        assert text.options == {"encoding": "ISO-8859-1"}
        assert source_of(env.read_text_file("/in")).options == {}
        with pytest.raises(ConfigurationError, match="text in UTF-16 cannot be read: Spark decodes UTF-8"):
            env.read_text_file("/in", "UTF-16")
        csv = source_of(env.read_csv("/in", "id STRING", {"header": "true"}, watch=True))
        assert csv == FormatSource("csv", "/in", {"mode": "FAILFAST", "header": "true"}, "id STRING", None, False)
        assert source_of(env.read_json("/in")).format == "json"
        assert source_of(env.read_parquet("/in")).format == "parquet"
        with pytest.raises(GraphError, match="needs a schema"):
            env.read_parquet("/in", watch=True)

    def test_file_source(self, env: StreamExecutionEnvironment) -> None:
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/a", "/b")
        source = builder.build()
        assert (source.path, source.more_paths, source.bounded) == ("/a", ("/b",), True)
        assert source.options == {"recursiveFileLookup": "true"}  # as Flink looks for files, whatever their format
        schema = CsvSchema.builder().add_string_column("name").build()
        csv = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "/a").build()
        assert csv.options["recursiveFileLookup"] == "true"
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
        assert stream.get_type() == Types.STRING()
        assert stream.get_name() == "Source: files"
        with pytest.raises(ValueError, match="single path"):
            builder.monitor_continuously(Duration.of_seconds(1)).build()
        one = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/a")
        assert not one.monitor_continuously(Duration.of_seconds(1)).build().bounded

    def test_a_streaming_file_sink_calls_the_policy_by_another_name(self) -> None:
        policy = RollingPolicy.default_rolling_policy(part_size=7)
        builder = StreamingFileSink.for_row_format("/out", Encoder.simple_string_encoder())
        assert builder.with_rolling_policy(policy=policy) is builder.with_rolling_policy(rolling_policy=policy)
        for wrong in ((), ("daily",)):
            with pytest.raises(TypeError, match="a RollingPolicy is needed"):
                builder.with_rolling_policy(*wrong)

    def test_a_declared_type_reaches_a_spark_source(self, env: StreamExecutionEnvironment) -> None:
        pair = Types.TUPLE([Types.STRING(), Types.LONG()])
        stream = env.from_source(FormatSource("csv", "/in", schema="a STRING, b LONG"), None, "s", pair)
        assert source_of(stream).type_info == pair == stream.get_type()

    def test_mistakes(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(TypeError, match="Source"):
            env.add_source([1])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="WatermarkStrategy"):
            env.from_source(NumberSequenceSource(1, 2), "none", "x")  # type: ignore[arg-type]


class FakeClient(JobClient):
    """A job that commits what a test gives it, in the sink of the program itself."""

    def __init__(self) -> None:
        self.result: CompletableFuture[Any] = CompletableFuture()
        self.cancelled = False

    def get_job_id(self) -> Any:
        return "id"

    def get_job_status(self) -> Any:
        return None

    def cancel(self) -> CompletableFuture[None]:
        self.cancelled = True
        return CompletableFuture.completed(None)

    def stop_with_savepoint(self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None) -> Any:
        return None

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> Any:
        return None

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> Any:
        return None

    def rescale(self, parallelism: Any) -> Any:
        return None

    def get_checkpoint_history(self) -> Any:
        return None

    def get_exception_history(self) -> Any:
        return None

    def get_status_timestamps(self) -> Any:
        return None

    def get_metrics(self) -> Any:
        return None

    def get_hot_keys(self, operator: str) -> Any:
        return None

    def get_accumulators(self) -> Any:
        return None

    def get_job_execution_result(self) -> CompletableFuture[Any]:
        return self.result


class FakeExecutor:
    programs: list[JobProgram] = []  # noqa: RUF012 - cleared by the fixture
    client = FakeClient()

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def execute_async(self, program: JobProgram) -> JobClient:
        FakeExecutor.programs.append(program)
        return FakeExecutor.client


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> type[FakeExecutor]:
    monkeypatch.setitem(execution.EXECUTORS, "spark", f"{__name__}:FakeExecutor")
    monkeypatch.setattr(execution, "_load", lambda entry, wanted_for: FakeExecutor)
    FakeExecutor.programs = []
    FakeExecutor.client = FakeClient()
    return FakeExecutor


class TestExecution:
    def test_execute_hands_the_program_over_once(
        self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]
    ) -> None:
        executor.client.result = CompletableFuture.completed("done")
        env.get_configuration().set_string("python.files", "/a.zip,/b.py")
        env.add_python_file("lib.py")
        env.from_collection([1]).map(str)
        assert env.execute("job") == "done"  # type: ignore[comparison-overlap]
        program = executor.programs[0]
        assert (program.name, [one.name for one in program.transformations]) == ("job", ["Map"])
        assert program.python_files == ("/a.zip", "/b.py", "lib.py")
        env.execute_async()
        assert executor.programs[1].transformations == ()
        assert executor.programs[1].name == execution.DEFAULT_JOB_NAME

    def test_the_name_may_be_configured(self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]) -> None:
        env.get_configuration().set(PipelineOptions.NAME, "configured")
        env.execute_async()
        assert executor.programs[0].name == "configured"

    def test_an_interrupted_wait_cancels(self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]) -> None:
        executor.client.result = CompletableFuture.failed(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            env.execute()
        assert executor.client.cancelled

    def test_collect(self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]) -> None:
        results = env.from_collection([1]).execute_and_collect("job")
        operator = executor.programs[0].transformations[-1]
        assert operator.uid == "collect-1"

        def job() -> None:
            operator.spec.sink.results.add(1, 0, ["a"])
            operator.spec.sink.results.add(2, 0, ["b"])
            executor.client.result._future.set_result("done")

        thread = threading.Thread(target=job)
        thread.start()
        with results as values:
            assert list(values) == ["a", "b"]
        thread.join()
        assert not executor.client.cancelled

    def test_collect_with_a_limit_cancels(self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]) -> None:
        stream = env.from_collection([1])
        original = executor.execute_async

        def commit(self: Any, program: JobProgram) -> JobClient:
            program.transformations[-1].spec.sink.results.add(1, 0, [1, 2, 3])
            return original(self, program)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(executor, "execute_async", commit)
            assert stream.execute_and_collect(limit=2) == [1, 2]
        assert executor.client.cancelled
        with pytest.raises(ValueError, match="limit"):
            stream.execute_and_collect(limit=0)

    def test_collect_raises_what_the_job_failed_with(
        self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]
    ) -> None:
        executor.client.result = CompletableFuture.failed(JobExecutionError("boom"))
        results = env.from_collection([1]).execute_and_collect()
        with pytest.raises(JobExecutionError, match="boom"):
            list(results)

    def test_a_client_may_bring_results_itself(
        self, env: StreamExecutionEnvironment, executor: type[FakeExecutor]
    ) -> None:
        class Remote(FakeClient):
            def collected(self, uid: str) -> Iterator[Any]:
                return iter([uid])

        executor.client = Remote()
        assert list(env.from_collection([1]).execute_and_collect()) == ["collect-1"]

    def test_an_executor_that_is_not_there(self, env: StreamExecutionEnvironment) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(execution.EXECUTORS, "local", "tidemill.no_such_module:Executor")
            env.get_configuration().set(ExecutionOptions.TARGET, "local")
            env.from_collection([1]).map(str)
            with pytest.raises(ConfigurationError, match=r"execution\.target: local.*no_such_module"):
                env.execute()
        assert len(env._transformations) == 1
