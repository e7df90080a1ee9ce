"""How the local engine reads files: lines, errors with their record, and what it refuses to read in another way."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.common import Configuration, Time, TimestampAssigner, Types, WatermarkStrategy
from tidemill.datastream import StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.datastream.connectors.file_system import FileSource, StreamFormat
from tidemill.errors import ConfigurationError, ConnectorError, GraphError, TidemillError, TypeMismatchError
from tidemill.local.files import lines as line_module
from tidemill.local.files.lines import line_batches


def environment(**options: str) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", **options})
    )


def read(format_name: str, path: Path, schema: str | None = None, **options: str) -> list[Any]:
    given = {"mode": "FAILFAST", **options} if format_name in ("csv", "json") else options
    with environment().read_format(format_name, str(path), schema, given).execute_and_collect() as results:
        return list(results)


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b""])), st.integers(1, 4))
@settings(max_examples=examples(100))
def test_lines_do_not_depend_on_how_a_file_is_read(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_module, "_CHUNK", size)
        found = [line for batch in line_batches(io.BytesIO(data)) for line in batch]
    assert found == data.splitlines()


def test_a_record_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("1,2.5\n2,x\n")
    with pytest.raises(TypeMismatchError) as caught:
        read("csv", path, "id LONG, amount DOUBLE")
    text = str(caught.value)
    assert f"file {path} has a record that does not fit the schema: column 'amount' is not a valid DOUBLE" in text
    assert "It is record '2,x'" in text
    path.write_text('{"id": 1}\n{"id": "one"}\n')
    with pytest.raises(TypeMismatchError, match="field 'id' is a string, but the schema requires BIGINT"):
        read("json", path, "id LONG")


@pytest.mark.parametrize(
    ("format_name", "schema", "options", "says"),
    [
        ("csv", "id LONG", {"mode": "PERMISSIVE"}, "mode: PERMISSIVE"),
        ("csv", "id LONG", {"multiLine": "true"}, "the option 'multiline' of csv files"),
        ("csv", "id LONG", {"encoding": "UTF-16"}, "csv files in UTF-16"),
        ("csv", "id LONG", {"sep": "||"}, "sep: '||', which is not a single character"),
        ("json", None, {}, "json files without a schema"),
        ("text", None, {"wholetext": "true"}, "the option 'wholetext' of text files"),
        ("xml", "id LONG", {}, "the format 'xml'"),
        ("avro", None, {}, "read Avro files with AvroInputFormat"),
    ],
)
def test_what_only_spark_can_read_is_refused(
    tmp_path: Path, format_name: str, schema: str | None, options: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(format_name, tmp_path, schema, **options)
    assert says in str(caught.value)
    assert "set execution.target: spark" in str(caught.value)


def test_dataframes_are_refused_in_one_sentence() -> None:
    frame = SimpleNamespace(isStreaming=False, schema="id LONG")
    stream = environment().from_dataframe(frame)
    with pytest.raises(GraphError, match=r"is a Spark DataFrame, which execution.target: local cannot read: set"):
        stream.execute_and_collect()


def test_directories_that_name_columns_and_unknown_codecs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.txt").write_text("a\n")
    with pytest.raises(TidemillError, match="the column that the directory 'day=1'"):
        read("text", tmp_path)
    assert [row.value for row in read("text", tmp_path, recursiveFileLookup="true")] == ["a"]
    (tmp_path / "b.snappy").write_bytes(b"")
    with pytest.raises(TidemillError, match="cannot decompress"):
        read("text", tmp_path, recursiveFileLookup="true")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n" * 1000)[:-10])
    with pytest.raises(ConnectorError, match=r"file .*a\.gz cannot be read as text"):
        read("text", tmp_path)
    (tmp_path / "a.gz").unlink()
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(ConnectorError, match=r"file .*a\.parquet"):
        read("parquet", tmp_path, "id LONG")
    with pytest.raises(ConnectorError, match="does not exist"):
        read("text", tmp_path / "missing")


def test_each_file_has_its_own_event_time(tmp_path: Path) -> None:
    """Files are read one after the other: without a time of its own, the second one would be late as a whole."""
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"{minute}\n" for minute in range(100)))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Minutes())
    lines = environment().from_source(source, strategy, "files").map(int, Types.LONG())
    counts = (
        lines.map(lambda _: ("k", 1)).key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.minutes(10)))
    )
    with counts.reduce(lambda one, other: (one[0], one[1] + other[1])).execute_and_collect() as results:
        assert [count for _, count in results] == [20] * 10


class _Minutes(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value) * 60_000
