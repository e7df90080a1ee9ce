"""When parts of a file sink are finished: the defaults of Flink, checkpoints, and what becomes of older state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.unit.connectors.sink_epochs import Job
from tests.waiting import eventually
from tidemill.common import Configuration, Encoder, JobClient
from tidemill.common.serialization import BulkWriterFactory
from tidemill.connectors.file_system.parts import GrowingPart
from tidemill.connectors.file_system.rolling import DefaultRollingPolicy, OnEpochRollingPolicy
from tidemill.connectors.file_system.sink import RollingFileSink
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy, StreamingFileSink
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.errors import CheckpointError, StateError
from tidemill.testing import JobHarness

MINUTE = 60_000
NO_BUCKETS = BucketAssigner.base_path_bucket_assigner()
DEFAULT = RollingPolicy.default_rolling_policy()
ROWS = ParquetBulkWriters.for_row_type("id LONG")


def rows(path: Path | str) -> FileSink.RowFormatBuilder:
    return FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_bucket_assigner(NO_BUCKETS)


def parquet(path: Path | str) -> FileSink.BulkFormatBuilder:
    return FileSink.for_bulk_format(path, ROWS).with_bucket_assigner(NO_BUCKETS)


def shown(path: Path) -> list[str]:
    return sorted(file.read_text() for file in path.rglob("[!.]*") if file.is_file())


def hidden(path: Path) -> list[str]:
    return sorted(file.name for file in path.rglob(".*"))


def is_due(job: JobHarness) -> bool:
    """Whether a driver would run an epoch now."""
    return job.due


def with_interval(sink: FileSink, interval: str | None) -> FileSink:
    """The sink as a job uses it."""
    return sink.configured(
        Configuration.from_dict({} if interval is None else {"execution.checkpointing.interval": interval})
    )


class TestDefaults:
    def test_rows_are_finished_by_size_and_time_which_is_checked_each_minute(self, tmp_path: Path) -> None:
        for builder in (rows(tmp_path), StreamingFileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())):
            for interval in (None, "10 s"):
                policy = with_interval(builder.build(), interval).settings.policy
                assert policy == DefaultRollingPolicy(128 << 20, MINUTE, MINUTE, check_interval=MINUTE)

    def test_bulk_formats_are_finished_by_checkpoints_if_there_are_any(self) -> None:
        sink = parquet("/tmp/out").build()
        assert with_interval(sink, "10 s").settings.policy == RollingPolicy.on_checkpoint_rolling_policy()
        assert with_interval(sink, None).settings.policy == DefaultRollingPolicy(
            128 << 20, MINUTE, MINUTE, check_interval=MINUTE
        )

    def test_a_policy_of_the_program_is_used_as_it_is(self) -> None:
        for policy in (DEFAULT, RollingPolicy.on_checkpoint_rolling_policy(), RollingPolicy.on_epoch_rolling_policy()):
            for builder in (rows("/tmp/out"), parquet("/tmp/out")):
                sink = builder.with_rolling_policy(policy).build()
                assert with_interval(sink, None).settings.policy == policy
                assert with_interval(sink, "10 s").settings.policy == policy

    def test_the_check_interval_applies_to_any_policy_with_times(self) -> None:
        built = rows("/tmp/out").with_bucket_check_interval(500).with_rolling_policy(DEFAULT).build()
        assert built.settings.policy == DefaultRollingPolicy(128 << 20, MINUTE, MINUTE, check_interval=500)
        default = rows("/tmp/out").with_bucket_check_interval(500).build()
        assert default.settings.policy == built.settings.policy
        with pytest.raises(ValueError, match="check interval must be positive, not 0"):
            rows("/tmp/out").with_bucket_check_interval(0)

    def test_a_format_that_cannot_be_merged_has_a_file_for_each_epoch(self) -> None:
        class Custom(BulkWriterFactory[Any]):
            def create(self, stream: Any) -> Any:
                raise NotImplementedError

        sink = FileSink.for_bulk_format("/tmp/out", Custom()).build()
        assert with_interval(sink, "10 s").settings.policy == OnEpochRollingPolicy()
        assert not isinstance(sink, RollingFileSink)


class TestRows:
    def test_a_part_is_finished_at_the_first_check_after_it_is_due(self, tmp_path: Path) -> None:
        """As in Flink: a part that was begun shortly after a check is two minutes old when it is finished."""
        job = Job(rows(tmp_path).build())
        finished: list[int] = []
        for second in range(1, 600):
            job.epoch_of([second], now=second * 1000)
            if len(shown(tmp_path)) > len(finished):
                finished.append(second)
        assert finished == [120, 240, 360, 480]
        assert sum(len(text.split()) for text in shown(tmp_path)) == 480

    def test_a_quiet_stream_needs_one_more_epoch(self, tmp_path: Path) -> None:
        job = Job(rows(tmp_path).build())
        job.epoch_of(["a"], now=1000)
        assert job.writer.due() == 2 * MINUTE
        job.epoch_of([], now=2 * MINUTE)
        assert shown(tmp_path) == ["a\n"]
        assert hidden(tmp_path) == []
        assert job.writer.due() is None


class TestCheckpoints:
    def test_a_part_spans_the_epochs_between_two_checkpoints(self, tmp_path: Path) -> None:
        job = Job(rows(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build(), 1000)
        job.epoch_of([0], now=0)  # the first epoch is a checkpoint
        assert shown(tmp_path) == ["0\n"]
        for n in range(1, 5):
            job.epoch_of([n], now=n * 200)
            assert job.writer.due() == 1000
        assert shown(tmp_path) == ["0\n"]
        job.epoch_of([], now=1000)
        assert shown(tmp_path) == ["0\n", "1\n2\n3\n4\n"]
        assert hidden(tmp_path) == []
        assert job.writer.due() is None

    def test_without_an_interval_each_epoch_is_a_checkpoint(self, tmp_path: Path) -> None:
        job = Job(rows(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
        for n in range(3):
            job.epoch_of([n], now=n)
        assert shown(tmp_path) == ["0\n", "1\n", "2\n"]

    @pytest.mark.parametrize("interval", ["2 s", None])
    def test_parquet_in_a_job(self, tmp_path: Path, interval: str | None) -> None:
        def build(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
            numbers.map(lambda n: (n,)).sink_to(parquet(tmp_path).build()).uid("files")

        options = {} if interval is None else {"execution.checkpointing.interval": interval}
        with JobHarness(build, inputs=["numbers"], configuration=options, parallelism=1) as job:
            for second in range(10):
                job.set_processing_time(second * 1000)
                job.epoch(numbers=[second])
            job.set_processing_time(MINUTE)
            while job.due:
                job.epoch()
            found = [pq.read_table(file)["id"].to_pylist() for file in sorted(tmp_path.glob("part-*"))]
        assert sorted(found) == ([list(range(10))] if interval is None else [[0], [1, 2], [3, 4], [5, 6], [7, 8], [9]])

    def test_parts_are_finished_in_time_after_a_restart_and_a_rescale(self, tmp_path: Path) -> None:
        def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
            words.rebalance().sink_to(rows(tmp_path).build()).uid("files")

        with JobHarness(build, inputs=["words"], parallelism=2) as job:
            job.set_processing_time(1000)
            job.epoch(words=["a", "b", "c"])
            job.restart()
            assert not is_due(job)
            job.set_processing_time(119_999)
            job.restart(parallelism=1)
            assert not is_due(job)
            job.set_processing_time(2 * MINUTE)
            assert is_due(job)
            job.epoch()
            assert not is_due(job)
            assert sorted("".join(shown(tmp_path)).split()) == ["a", "b", "c"]
            assert hidden(tmp_path) == []
            job.epoch(words=["d"])
            job.end()
        assert sorted("".join(shown(tmp_path)).split()) == ["a", "b", "c", "d"]
        assert hidden(tmp_path) == []


class TestJobs:
    """Whole jobs with the default policy, in this process."""

    def start(self, folder: Path, job_id: str, **options: str) -> JobClient:
        configuration = Configuration.from_dict(
            {
                "execution.target": "local",
                "execution.job-id": job_id,
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "execution.epoch.max-records": "10",
                "execution.epoch.min-interval": "20ms",
                "parallelism.default": "2",
                **options,
            }
        )
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        numbers = env.from_sequence(1, 600).uid("numbers").rebalance().map(str)
        numbers.sink_to(rows(folder / "out").build()).uid("files")
        return env.execute_async(job_id)

    def check(self, folder: Path) -> None:
        lines = "".join(shown(folder / "out")).split()
        assert sorted(map(int, lines)) == list(range(1, 601))
        assert hidden(folder / "out") == []

    def test_a_canceled_job_continues_its_parts_when_it_is_started_again(self, tmp_path: Path) -> None:
        client = self.start(tmp_path, "job")
        eventually(lambda: any(name.endswith(".kept") for name in hidden(tmp_path / "out")))
        client.cancel().result(60)
        assert shown(tmp_path / "out") == []
        assert {name.rpartition(".")[2] for name in hidden(tmp_path / "out")} == {"kept"}
        self.start(tmp_path, "job").get_job_execution_result().result()
        self.check(tmp_path)

    def test_another_job_continues_them_from_a_savepoint(self, tmp_path: Path) -> None:
        client = self.start(tmp_path, "first")
        eventually(lambda: any(name.endswith(".kept") for name in hidden(tmp_path / "out")))
        path = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(60)
        assert shown(tmp_path / "out") == []
        second = self.start(tmp_path, "second", **{"execution.state-recovery.path": path, "parallelism.default": "1"})
        second.get_job_execution_result().result()
        self.check(tmp_path)

    def test_the_end_of_event_time_finishes_them(self, tmp_path: Path) -> None:
        client = self.start(tmp_path, "first")
        eventually(lambda: any(name.endswith(".kept") for name in hidden(tmp_path / "out")))
        client.stop_with_savepoint(True, str(tmp_path / "saved")).result(60)
        assert 0 < len("".join(shown(tmp_path / "out")).split()) < 600
        assert hidden(tmp_path / "out") == []


class TestState:
    def test_state_of_the_version_before_is_read(self, tmp_path: Path) -> None:
        (tmp_path / ".part-x.kept").write_text("a\n")
        part = {"version": 2, "bucket": "", "created": 5, "written": 7, "epochs": 3, "segments": [[".part-x.kept", 2]]}
        sink = rows(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(100, 1000, 500)).build()
        job = Job(sink)
        job.writer = sink.restore_writer(0, 1, [json.dumps(part)])  # type: ignore[attr-defined]
        job.epoch_of(["b"], now=8)
        assert job.writer.due() == 508
        job.epoch_of([], now=508)
        assert shown(tmp_path) == ["a\nb\n"]

    def test_state_of_a_later_version_is_refused(self, tmp_path: Path) -> None:
        state = GrowingPart("", 1, 2).to_state().replace('"version": 3', '"version": 4')
        with pytest.raises(CheckpointError, match="version 4 cannot be read"):
            rows(tmp_path).build().restore_writer(0, 1, [state])  # type: ignore[attr-defined]

    def test_open_parts_are_not_dropped_silently_when_the_policy_changes(self, tmp_path: Path) -> None:
        """A file per epoch has no open parts: a job that has some cannot resume with it."""
        policies = iter([DEFAULT, RollingPolicy.on_epoch_rolling_policy()])

        def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
            words.sink_to(rows(tmp_path).with_rolling_policy(next(policies)).build()).uid("files")

        job = JobHarness(build, inputs=["words"])
        job.epoch(words=["a"])
        with pytest.raises(
            StateError, match="state of a sink whose writers have state, and is now one whose writers have none"
        ):
            job.restart()
        assert hidden(tmp_path)

    def test_files_of_each_epoch_may_grow_from_now_on(self, tmp_path: Path) -> None:
        policies = iter([RollingPolicy.on_epoch_rolling_policy(), DEFAULT])

        def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
            words.sink_to(rows(tmp_path).with_rolling_policy(next(policies)).build()).uid("files")

        with JobHarness(build, inputs=["words"], parallelism=1) as job:
            job.epoch(words=["a"])
            job.restart()
            job.epoch(words=["b"])
            job.epoch(words=["c"])
            assert shown(tmp_path) == ["a\n"]
            job.end()
        assert shown(tmp_path) == ["a\n", "b\nc\n"]
