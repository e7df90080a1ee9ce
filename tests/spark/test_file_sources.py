"""Files read through Spark: what is written is read again, and what cannot be read is reported with file and line."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.jobs import add_file, collected, durable, environment
from tests.waiting import eventually
from tidemill.common import Duration, Encoder, Row, WatermarkStrategy
from tidemill.connectors.file_system.json_lines import json_lines_encoder
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy, StreamFormat
from tidemill.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from tidemill.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from tidemill.errors import TidemillError, TypeMismatchError

pytestmark = pytest.mark.usefixtures("spark")

MOMENT = dt.datetime(2024, 11, 3, 5, 30, 0, 1, tzinfo=dt.timezone.utc)
ROWS: list[tuple[Any, ...]] = [
    (1, "plain", Decimal("1.50"), True, dt.date(2024, 2, 29), MOMENT),
    (2, 'a "quoted", text', Decimal("-0.01"), False, dt.date(1, 1, 1), MOMENT),
    (3, "", None, None, None, None),
    (4, None, Decimal("999.99"), True, dt.date(9999, 12, 31), MOMENT),
    (5, " padded # ", Decimal(0), False, None, None),
]
DDL = "id BIGINT, text STRING, price DECIMAL(5,2), flag BOOLEAN, day DATE, at TIMESTAMP"
CSV = (
    CsvSchema.builder()
    .add_number_column("id")
    .add_string_column("text")
    .add_column("price", "DECIMAL(5,2)")
    .add_boolean_column("flag")
    .add_column("day", "DATE")
    .add_column("at", "TIMESTAMP")
    .set_use_header()
    .set_strict_headers()
    .build()
)


def read(source: FileSource, env: StreamExecutionEnvironment | None = None) -> list[Any]:
    stream = (env or environment()).from_source(source, WatermarkStrategy.no_watermarks(), "files")
    return collected(stream)


@pytest.mark.parametrize("name", ["csv", "json", "parquet"])
def test_what_a_sink_writes_a_source_reads(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    builders: dict[str, Any] = {
        "csv": lambda: FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(CSV)),
        "json": lambda: FileSink.for_row_format(path, json_lines_encoder()).with_compression("gzip"),
        "parquet": lambda: FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(DDL)),
    }
    formats: dict[str, Any] = {
        "csv": CsvReaderFormat.for_schema(CSV),
        "json": StreamFormat.json_lines_format(DDL),
        "parquet": ParquetColumnarRowInputFormat(DDL),
    }
    env = environment({"execution.target": "local"})
    rows = env.from_collection([Row(**dict(zip(CSV.struct.names, row, strict=True))) for row in ROWS])
    rows.sink_to(builders[name]().build())  # into date buckets
    env.execute("write")
    found = read(FileSource.for_record_stream_format(formats[name], path).build())
    assert sorted((tuple(row) for row in found), key=lambda row: row[0]) == ROWS


def test_several_paths_are_all_read_with_what_is_below_them(tmp_path: Path) -> None:
    deep = tmp_path / "c" / "2026-01-02--03" / "more"
    deep.mkdir(parents=True)
    for path in (tmp_path / "a", tmp_path / "b", deep.parent / "d", deep / "e"):
        path.write_text(f"{path.name}1\n{path.name}2\n")
    paths = [str(tmp_path / name) for name in "abc"]
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths).build()
    assert sorted(read(source)) == [f"{name}{n}" for name in "abde" for n in (1, 2)]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "csv",
            "id,text,price,flag,day,at\nx,a,1,true,,\n",
            ["column 'id' is not a valid BIGINT", "record 'x,a,1,true,,'"],
        ),
        ("csv", "nr,text,price,flag,day,at\n1,a,1,true,,\n", ["nr"]),
        (
            "json",
            '{"id": 1}\n{"id": "x", "more": "\u00e9"}\n',
            ["field 'id' is a string, but the schema requires BIGINT", """record '{"id": "x", "more": "\u00e9"}'"""],
        ),
        ("json", '{"id": 1\n', ["it is not valid JSON", """record '{"id": 1'"""]),
        ("parquet", "not parquet at all", []),
    ],
    ids=["csv value", "csv header", "json value", "json torn", "parquet"],
)
def test_what_cannot_be_read_is_shown(name: str, content: str, told: list[str], tmp_path: Path) -> None:
    (tmp_path / f"bad.{name}").write_text(content)
    formats: dict[str, Any] = {
        "csv": CsvReaderFormat.for_schema(CSV),
        "json": StreamFormat.json_lines_format("id LONG, `more` STRING"),
        "parquet": ParquetColumnarRowInputFormat("id LONG"),
    }
    with pytest.raises(TidemillError) as raised:
        read(FileSource.for_record_stream_format(formats[name], str(tmp_path)).build())
    assert "the source '" in str(raised.value)
    assert [part for part in [f"bad.{name}", *told] if part not in str(raised.value)] == []


@pytest.mark.parametrize(
    ("file", "path", "sep"),
    [
        ("in/day=1/x.csv", "{relative}/in", ","),
        ("in/day=1/x.csv", "{here}/i*", "||"),
        ("in {1}/[x].csv", "{here}/in ?1?/", ","),
    ],
    ids=["relative", "pattern", "named like a pattern"],
)
def test_however_a_file_is_named_its_record_is_shown(file: str, path: str, sep: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"1{sep}a\n{sep}\nx{sep}b\n")
    (tmp_path / "i").mkdir()
    place = path.replace("{here}", str(tmp_path)).replace("{relative}", os.path.relpath(tmp_path))
    env = environment()
    orders = env.read_csv(place, "id LONG, text STRING" + ", day INT" * ("day=" in file), {"sep": sep})
    with pytest.raises(TypeMismatchError) as raised:
        collected(env.read_csv(str(tmp_path / "i"), "day DATE").map(str).union(orders.map(str)))
    assert f"file {tmp_path / file} has a record that does not fit" in str(raised.value)
    assert f"record 'x{sep}b'" in str(raised.value)


def test_a_record_of_a_watched_directory_that_does_not_fit_is_shown_but_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Directories by value (``day=1``) add a column to the file's own, of which there are two."""
    folder = tmp_path / "in" / "day=1"
    folder.mkdir(parents=True)
    (folder / "orders 1.json").write_text('{"id": 1, "price": 2.5}\n{"id": 2, "price": "secret"}\n')
    env = environment(
        {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    )
    env.read_json(str(tmp_path / "in"), "id LONG, price DOUBLE", watch=True).print()
    with pytest.raises(TypeMismatchError) as raised:
        env.execute()
    told = f"file {folder}/orders 1.json has a record that does not fit the schema: field 'price' is a string"
    assert told in str(raised.value)
    assert raised.value.site is not None
    assert raised.value.site.record == """'{"id": 2, "price": "secret"}'"""
    assert "orders 1.json" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("mode", "rows"), [("PERMISSIVE", [(1, "a"), (None, "b")]), ("dropmalformed", [(1, "a")])])
def test_a_program_may_have_what_does_not_fit_as_none_or_left_out(mode: str, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"id": 1, "name": "a"}\n{"id": "x", "name": "b"}\n')
    stream = environment().read_json(str(tmp_path), "id LONG, name STRING", {"mode": mode})
    assert sorted(map(tuple, collected(stream)), key=lambda row: row[1]) == rows


def test_text_is_read_in_its_character_set(tmp_path: Path) -> None:
    green = "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"
    (tmp_path / "lines.txt").write_bytes(f"{green}\n\n{green} again\n".encode("latin-1"))
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format("latin-1"), tmp_path / "lines.txt")
    assert sorted(read(lines.build())) == ["", green, f"{green} again"]


def test_what_is_no_text_is_marked_as_in_flink(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes(b"a\xffb\n")
    assert collected(environment().read_text_file(str(tmp_path))) == ["a\ufffdb"]


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TidemillError, match=r"could not read the source '.*nowhere"):
        read(FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "nowhere")).build())


def watched(folder: Path) -> FileSource:
    lines = StreamFormat.text_line_format()
    return FileSource.for_record_stream_format(lines, str(folder)).monitor_continuously(Duration.of_millis(100)).build()


def test_a_watched_directory(tmp_path: Path) -> None:
    """New files are read once: also if they change, are touched or are gone later, and over a restart."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()

    def lines() -> list[str]:
        return sorted(line for path in out.glob("[!.]*") for line in path.read_text().splitlines())

    def start() -> Any:
        env = environment(durable(tmp_path / "checkpoints"))
        stream = env.from_source(watched(source), WatermarkStrategy.no_watermarks(), "watched").uid("watched")
        builder = FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        stream.sink_to(builder.with_rolling_policy(RollingPolicy.on_epoch_rolling_policy()).build()).uid("out")
        return env.execute_async("watched")

    add_file(source / "first", "first\n")
    client = start()
    eventually(lambda: lines() == ["first"])
    with (source / "first").open("a") as file:
        file.write("more\n")
    os.utime(source / "first")
    add_file(source / "second", "second\n")
    eventually(lambda: lines() == ["first", "second"])
    client.cancel().result(60)
    (source / "first").unlink()
    add_file(source / "third", "third\n")
    client = start()
    eventually(lambda: lines() == ["first", "second", "third"])
    client.cancel().result(60)
    assert lines() == ["first", "second", "third"]
