"""A program is changed, and started from a savepoint of the one before: on Spark, as a user would do it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import durable, environment
from tests.spark.test_savepoints import give, seen
from tests.waiting import eventually
from tidemill.common import Encoder, JobClient, Types
from tidemill.common.reports.upgrade_report import Outcome
from tidemill.common.typeinfo import DataclassTypeInfo, TypeInformation
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import StateMigrationError

#: For a machine that is busy with other things.
SECONDS = 150.0


def first_version() -> TypeInformation:
    @dataclass
    class Account:
        owner: str
        note: str = "old"
        visits: int = 0

    Account.__qualname__ = "Account"
    return DataclassTypeInfo(Account, {"owner": Types.STRING(), "note": Types.STRING(), "visits": Types.INT()})


def second_version() -> TypeInformation:
    """A field is new, one is wider."""

    @dataclass
    class Account:
        owner: str
        note: str = ""
        visits: int = 0
        city: str = "nowhere"

    Account.__qualname__ = "Account"
    fields = {"owner": Types.STRING(), "note": Types.STRING(), "visits": Types.LONG(), "city": Types.STRING()}
    return DataclassTypeInfo(Account, fields)


def smaller_version() -> TypeInformation:
    """A field is gone."""

    @dataclass
    class Account:
        owner: str
        visits: int = 0

    Account.__qualname__ = "Account"
    return DataclassTypeInfo(Account, {"owner": Types.STRING(), "visits": Types.LONG()})


def renamed_version() -> TypeInformation:
    """A field is gone, and one is new: perhaps it has another name."""

    @dataclass
    class Account:
        owner: str
        visits: int = 0
        remark: str = ""

    Account.__qualname__ = "Account"
    return DataclassTypeInfo(Account, {"owner": Types.STRING(), "visits": Types.LONG(), "remark": Types.STRING()})


def wrong_version() -> TypeInformation:
    """A number has become a text: nobody knows how."""

    @dataclass
    class Account:
        owner: str
        visits: str = ""

    Account.__qualname__ = "Account"
    return DataclassTypeInfo(Account, {"owner": Types.STRING(), "visits": Types.STRING()})


class Visits(KeyedProcessFunction):
    """Counts how often someone came."""

    def __init__(self, account: Any) -> None:
        self.account = account

    def open(self, runtime_context: RuntimeContext) -> None:
        self.known = runtime_context.get_state(ValueStateDescriptor("account", self.account))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        known = self.known.value() or self.account.python_class(value)
        known = replace(known, visits=known.visits + type(known.visits)(1))
        self.known.update(known)
        yield " ".join(f"{name}={field}" for name, field in sorted(asdict(known).items()))


def program(folder: Path, job_id: str, account: TypeInformation, **options: str) -> StreamExecutionEnvironment:
    env = environment(durable(folder / "checkpoints", job_id, **{**options, "pipeline.max-parallelism": "8"}))
    names = (
        env.read_json(str(folder / "in"), "k STRING", watch=True).uid("names").map(lambda row: row.k, Types.STRING())
    )
    sink = (
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
    counted = names.key_by(lambda name: name, Types.STRING()).process(Visits(account), Types.STRING()).uid("visits")
    counted.sink_to(sink).uid("sink")
    return env


def start(folder: Path, job_id: str, account: TypeInformation, **options: str) -> JobClient:
    return program(folder, job_id, account, **options).execute_async()


def wrote(job: JobClient, folder: Path, lines: int) -> None:
    """Wait until so many lines are committed; what the job fails with is raised."""

    def enough() -> bool:
        result = job.get_job_execution_result()
        if result.done():
            result.result()
        return seen(folder).total() == lines

    eventually(enough, seconds=SECONDS)


def files(folder: str | Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("before", "after"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_a_class_in_state_gains_a_field_and_has_one_widened(
    spark: SparkSession, tmp_path: Path, before: str, after: str
) -> None:
    people = [f"p{number}" for number in range(20)]
    give(tmp_path / "in", "1", *people, *people)
    job = start(tmp_path, "first", first_version(), **{"state.backend.type": before})
    wrote(job, tmp_path, 40)
    path = job.stop_with_savepoint(False, str(tmp_path / "elsewhere")).result(SECONDS)
    saved, written = files(path), seen(tmp_path)
    assert written["note=old owner=p7 visits=2"] == 1

    options = {
        "execution.state-recovery.path": path,
        "parallelism.default": "3",
        "state.backend.type": after,
        "restart-strategy.type": "none",
    }
    give(tmp_path / "in", "2", *people, "new")

    wrong = start(tmp_path, "wrong", wrong_version(), **options)
    with pytest.raises(StateMigrationError) as refused:
        wrong.get_job_execution_result().result(SECONDS)
    said = str(refused.value)
    assert "state 'account'" in said
    assert "Account(owner: String, note: String, visits: Integer)" in said
    assert "Account(owner: String, visits: String)" in said
    assert seen(tmp_path) == written
    assert files(path) == saved

    for version, outcome in (
        (smaller_version, Outcome.MIGRATED),
        (renamed_version, Outcome.REFUSED),
        (second_version, Outcome.MIGRATED),
    ):
        report = program(tmp_path, "second", version(), **options).check_upgrade()
        assert [change.outcome for change in report.changes if change.state == "account"] == [outcome]
    second = start(tmp_path, "second", second_version(), **options)
    wrote(second, tmp_path, 61)
    second.cancel().result(SECONDS)
    expected = {f"city=nowhere note=old owner={name} visits=3" for name in people} | {
        "city=nowhere note= owner=new visits=1"
    }
    assert set(seen(tmp_path) - written) == expected
    assert files(path) == saved
