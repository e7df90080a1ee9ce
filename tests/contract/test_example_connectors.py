"""The connectors in examples/connectors keep the contracts that any source and any sink must keep."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.connectors.custom_idempotent_sink import CountsSink
from examples.connectors.custom_source import ReadingsSource, write_readings
from examples.connectors.custom_two_phase_sink import ReportsSink, reports
from examples.connectors.custom_write_ahead_log_sink import TABLES, OrdersSink
from tidemill.testing.sink_contract import SINK_CASES, WRITER_CASES, SinkCase, check_sink
from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source


def rows(database: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        # Nobody cuts the power in a test.
        connection.executescript(f"PRAGMA journal_mode = WAL; {script}")
    return path


def pair(number: int) -> tuple[int, int]:
    return number, -number


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_write_ahead_log(case: SinkCase, tmp_path: Path) -> None:
    orders = database(tmp_path / "orders.db", TABLES)
    check_sink(
        case, lambda: OrdersSink(str(orders)), lambda: rows(orders, "SELECT id, amount FROM orders"), record=pair
    )


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_idempotent(case: SinkCase, tmp_path: Path) -> None:
    counts = database(tmp_path / "counts.db", "CREATE TABLE counts (word TEXT PRIMARY KEY, count INTEGER)")
    check_sink(
        case,
        lambda: CountsSink(str(counts)),
        lambda: rows(counts, "SELECT word, count FROM counts"),
        record=lambda number: (f"word {number}", number),
    )


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_two_phases(case: SinkCase, tmp_path: Path) -> None:
    sink, visible = lambda: ReportsSink(str(tmp_path)), lambda: reports(tmp_path)
    check_sink(case, sink, visible, left=lambda: tmp_path.glob(".*"))


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
def test_source(case: SourceCase, tmp_path: Path) -> None:
    write_readings(tmp_path)
    expected = [
        (sensor, 10 * number + hour) for number, sensor in enumerate(["cellar", "kitchen", "roof"]) for hour in range(8)
    ]
    check_source(case, lambda: ReadingsSource(tmp_path), expected)
