"""The building blocks of sinks and files, under the contract of all sinks; two phases are those of the example."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.sink_systems import Appending, KeyedSink, System, TableSink, Transactions
from tidemill.common.serialization import Encoder
from tidemill.connectors.function_sink import FunctionSink
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.testing.sink_contract import SINK_CASES, WRITER_CASES, SinkCase, check_sink

#: An epoch of the write-ahead log with these has files, and is committed on workers.
LARGE = 150_000


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_write_ahead_log(case: SinkCase) -> None:
    system = System("wal")
    check_sink(case, lambda: TableSink("wal"), lambda: system.rows)


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_write_ahead_log_in_files_and_on_workers(case: SinkCase) -> None:
    system = System("wal")
    check_sink(case, lambda: TableSink("wal"), lambda: system.rows, record=lambda n: f"{n}".zfill(LARGE))


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_two_phase_commit_sink_function(case: SinkCase) -> None:
    system = System("transactions")
    check_sink(case, lambda: Transactions("transactions"), lambda: system.rows, left=lambda: system.prepared)


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_idempotent_by_key(case: SinkCase) -> None:
    system = System("keyed")
    check_sink(case, lambda: KeyedSink("keyed", by_record=True), system.keyed.values)


@pytest.mark.parametrize("case", [case for case in WRITER_CASES if not case.rescales], ids=str)
def test_idempotent_by_position(case: SinkCase) -> None:
    system = System("positions")
    check_sink(case, lambda: KeyedSink("positions", by_record=False), system.keyed.values)


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_a_sink_function_is_at_least_once(case: SinkCase) -> None:
    system = System("appending")
    check_sink(case, lambda: FunctionSink(Appending("appending")), lambda: system.rows)


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_files(case: SinkCase, tmp_path: Path) -> None:
    def visible() -> list[str]:
        files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]

    def sink() -> FileSink:
        return (
            FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )

    check_sink(case, sink, visible, left=lambda: tmp_path.rglob(".*"))
