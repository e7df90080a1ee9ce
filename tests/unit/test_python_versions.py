"""Replacements for what Python 3.10 lacks: the same results on every version that the tests run on."""

from __future__ import annotations

import ast
import asyncio
import datetime as dt
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidemill import python_versions
from tidemill.python_versions import (
    StrEnum,
    add_note,
    date_from_iso,
    datetime_from_iso,
    forget_cancellation,
    pickled_state,
    sqlite_error_code,
    time_from_iso,
)

SOURCE = Path(python_versions.__file__).parent
EAST = dt.timezone(dt.timedelta(hours=1, minutes=30))


def test_no_other_module_distinguishes_versions() -> None:
    def compares(node: ast.AST) -> bool:
        return isinstance(node, ast.Compare) and "sys.version_info" in ast.unparse(node)

    trees = {path: ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCE.rglob("*.py")}
    assert [path.name for path, nodes in trees.items() if any(map(compares, nodes))] == ["python_versions.py"]


class Colour(StrEnum):
    RED = "red"


def test_members_are_strings() -> None:
    assert (Colour.RED, str(Colour.RED), f"{Colour.RED:>4}", Colour("red")) == ("red", "red", " red", Colour.RED)


def test_a_note_is_printed() -> None:
    error = ValueError("bad")
    add_note(error, "raised by commit()")
    empty = KeyError()
    add_note(empty, "raised by write()")
    assert "".join(traceback.format_exception_only(error)) == "ValueError: bad\nraised by commit()\n"
    assert "raised by write()" in "".join(traceback.format_exception_only(empty))


class Plain:
    def __init__(self) -> None:
        self.field = 1


class Slotted:
    __slots__ = ("field",)

    def __init__(self) -> None:
        self.field = 1


class Own(Plain):
    def __getstate__(self) -> Any:
        return {"own": 2}


@pytest.mark.parametrize(
    ("value", "state"),
    [(Plain(), {"field": 1}), (Slotted(), (None, {"field": 1})), (Own(), {"own": 2}), (object(), None)],
)
def test_state_as_pickle_reads_it(value: object, state: Any) -> None:
    assert pickled_state(value) == state


def test_a_task_survives_its_cancellation() -> None:
    async def stubborn() -> str:
        task = asyncio.current_task()
        assert task is not None
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            forget_cancellation(task)
        await asyncio.wait_for(asyncio.sleep(0), 60)
        return "survived"

    async def main() -> str:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main()) == "survived"


def test_a_locked_database_is_busy(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "db", isolation_level=None) as first:
        first.execute("CREATE TABLE t (x)")
        first.execute("BEGIN EXCLUSIVE")
        second = sqlite3.connect(tmp_path / "db", timeout=0)
        with pytest.raises(sqlite3.OperationalError) as busy:
            second.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.OperationalError) as wrong:
            first.execute("INSERT INTO missing VALUES (1)")
        second.close()
    first.close()
    assert (sqlite_error_code(busy.value), sqlite_error_code(wrong.value) in (5, 6)) == (5, False)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-02-29", "2024-02-29T00:00:00"),
        ("20240229T010203", "2024-02-29T01:02:03"),
        ("2024-02-29 01", "2024-02-29T01:00:00"),
        ("2024-02-29T01:02:03Z", "2024-02-29T01:02:03+00:00"),
        ("2024-02-29T01:02:03.5Z", "2024-02-29T01:02:03.500000+00:00"),
        ("2024-02-29T01:02:03,123456789+0130", "2024-02-29T01:02:03.123456+01:30"),
        ("2024-02-29 01:02:03 +01:30", "2024-02-29T01:02:03+01:30"),
        ("2024-W09-4T01:02", "2024-02-29T01:02:00"),
        ("2024W09 01:02-00:00", "2024-02-26T01:02:00+00:00"),
    ],
)
def test_timestamps_in_iso_8601(text: str, moment: str) -> None:
    assert datetime_from_iso(text).isoformat() == moment


@pytest.mark.parametrize("text", ["2024-02-29", "20240229", "2024-W09-4", "2024W094"])
def test_dates_in_iso_8601(text: str) -> None:
    assert date_from_iso(text) == dt.date(2024, 2, 29)


@pytest.mark.parametrize("text", ["01:02:03.25", "T010203.25", "01:02:03.250000999"])
def test_times_in_iso_8601(text: str) -> None:
    assert time_from_iso(text) == dt.time(1, 2, 3, 250_000)
    assert time_from_iso(f"{text}+01:30") == dt.time(1, 2, 3, 250_000, EAST)


@pytest.mark.parametrize("parse", [date_from_iso, time_from_iso, datetime_from_iso])
@pytest.mark.parametrize("text", ["", "noon", "2024-2-29", "2023-02-29", "2024-W54-1", "1:02", "01:60", "01:02+24:00"])
def test_what_is_not_iso_8601(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


@pytest.mark.parametrize("text", ["2024-0229", "2024-02-29T", "2024-02-29T01:0203", "2024-02-29TT01"])
def test_what_is_no_timestamp(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        datetime_from_iso(text)
