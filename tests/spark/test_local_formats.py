"""The local engine reads the same files with the same records as Spark, and refuses the same records."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.jobs import environment
from tidemill.common import Row
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSource, StreamFormat
from tidemill.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from tidemill.errors import ConfigurationError, ConnectorError, TidemillError, TypeMismatchError

ZONE = "Europe/Berlin"
LOCAL = {"execution.target": "local", "spark.sql.session.timeZone": ZONE}


@dataclass(frozen=True)
class Case:
    """Lines of a file that are read one by one, each as a file of its own, with a schema."""

    format: str
    schema: str
    lines: tuple[str | bytes, ...]
    options: Mapping[str, str] = field(default_factory=dict)


def csv(schema: str, *lines: str | bytes, **options: str) -> Case:
    return Case("csv", schema, lines, options)


def json(kind: str, *values: str) -> Case:
    return Case("json", f"a {kind}", tuple(f'{{"a":{value}}}' for value in values))


CASES = [
    csv("s STRING, n LONG", "a,1", ",", '"",""', '"a\\"b",1', '"a\\\\",1', '"a\\\\b\\n",1', '"a""b",1', '"a""b,c",1'),
    csv("s STRING, n LONG", 'a"b,1', "a\\b,1", '\\"x,2', ' "a" ,1', '"a" ,1', '"a"x,1', '"a,1', " a , 1", " a ,1"),
    csv("s STRING, n LONG", "a", "a,1,2", "a,1,", "\n  \na,1\n\n", '"a,b",1', '"a', 'a,"1"', '"a"\t,1'),
    csv("s STRING, n LONG", '"a""b",1', '"a\\"b",1', '"a"",b",1', '"""",1', '"",1', '"""a""",2', escape='"'),
    csv("s STRING, n LONG", "N/A,1", '"N/A",N/A', ",3", '"",4', nullValue="N/A"),
    csv("s STRING, n LONG", "s,n\na,1", "\ns,n\n\na,2", "x\na,1", "s,n", header="true"),
    csv("s STRING, n LONG", "s,n\na,1", "S,N\na,2", "x,n\na,1", header="true", enforceSchema="false"),
    csv("s STRING", "#a\nb", "a#b", " #a", comment="#"),
    csv("s STRING", "  ", "a\rb\r\nc", "#a\nb", "\ufeffa\nb", b"\xffa\nb", b"a\xe2\x28b"),
    csv("a STRING, b STRING", "1;2", "1,2", '"1;2";3', sep=";"),
    csv("n LONG", "+5", "5.0", "1_0", "0x1", "9223372036854775808", "-9223372036854775808", "-0", "٣", "5L", " 5"),
    csv("n DOUBLE", "1d", "1f", " 1 ", "1e3", ".5", "5.", "NaN", "Inf", "-Inf", "Infinity", "+Inf", "1_0", "1e400"),
    csv("n DOUBLE", "-0", "-Infinity", "+NaN", "nan", "inf", ".", "e5", "0.1"),
    csv("n FLOAT", "1.1", "NaN", "3.4e39"),
    csv("n TINYINT, m SMALLINT, k INT", "127,32767,2147483647", "128,1,1", "1,32768,1", "1,1,2147483648", "300,1,1"),
    csv("n BOOLEAN", "TRUE", "False", "1", "t", " true"),
    csv("n DECIMAL(10,2)", "1.255", "1e2", "1,000", "12345678.1", "123456789", "99999999.995", "-1.005", sep=";"),
    csv(
        "n DATE", "2024-01-02", "2024-1-2", "2024", "2024-05", "2024-01-02T03", "20240102", "2024-02-30", " 2024-01-02"
    ),
    csv("n TIMESTAMP", "2024-01-02", "2024-01-02 03:04:05", "2024-01-02T03:04:05.123456Z", "2024-01-02T03:04:05+01:00"),
    csv("n TIMESTAMP", "2024-01-02T03:04", "2024-03-31T02:30:00", "2024-10-27T02:30:00", "2024-01-02 03:04:05 UTC"),
    csv("n TIMESTAMP", "2024-01-02T03:04:05.1234567", "1900-01-01 00:00:00", "2024-13-01", "x", "2024-01-02T25:00:00"),
    csv("n TIMESTAMP", "2024-01-02T03:04:05 America/New_York", "2024-01-02 03:04:05-05:30", "2024-01-02T3:4:5"),
    csv("n TIMESTAMP_NTZ", "2024-01-02", "2024-01-02 03:04:05", "2024-01-02T03:04:05.123456Z"),
    csv("n BINARY", "abc"),
    csv("s STRING, n LONG", "a,1\nb,x\nc,3\nd\ne,5", mode="DROPMALFORMED"),
    json("LONG", "1", "1.0", '"1"', "null", "1e2", "9223372036854775808", "true", '""', "01", "NaN", "[1]", "-0"),
    Case("json", "a LONG", ("{}", '{"a":1} x', '{"a":1}{"a":2}', '[{"a":1},{"a":2}]', "[]", "[1]", "1", "null", "  ")),
    Case(
        "json", "a LONG", ('{"a":"x","a":1}', '{"a":1,"a":2}', '{"A":1}', '{"a":1,}', "{a:1}", '\ufeff{"a":1}', '"x"')
    ),
    Case("json", "a LONG", ('{"a":1}\r{"a":2}\r\n{"a":3}', ' \t{"a":1}', '{"b":{"c":[1,{}]},"a":4}')),
    json("STRING", "1", "1.50", "true", '"x"', "null", '""', "1e3", "NaN", '"x\ty"', '"\\u00e9\\n"', "-0", "1E+3"),
    json("DOUBLE", "1", "1.5", '"1.5"', '"NaN"', '"INF"', '"Infinity"', "NaN", "Infinity", '"+INF"', '""', "1e400"),
    json("DOUBLE", "-Infinity", '"-Infinity"', '"-INF"', '"nan"', "0.1", "-0", "-0.0", "true", '"+Infinity"'),
    json("FLOAT", "1.1", "16777217", '"NaN"'),
    json("TINYINT", "127", "128", "255", "256", "-129", "1.5"),
    json("SMALLINT", "32767", "32768"),
    json("INT", "2147483647", "2147483648", "true"),
    json("BOOLEAN", "true", "false", "1", '"true"', "null"),
    json("DECIMAL(10,2)", "1.255", '"1.5"', '"1,000"', "123456789", "12345678.999", "1e2", '""', "true", "-1.005"),
    json("DATE", '"2024-01-02"', '"2024-1-2"', "19000", '"x"', '""', '"2024-01-02T03:04:05Z"'),
    json("TIMESTAMP", '"2024-01-02"', '"2024-01-02T03:04:05Z"', "1704164645", "1704164645.5", '""', "true"),
    json("TIMESTAMP_NTZ", '"2024-01-02T03:04:05"', '"2024-01-02T03:04:05Z"', "1"),
    json("BINARY", '"YWJj"', '"YW"', "1", '"a b"'),
    json("ARRAY<INT>", "[1,null]", "1", "{}", "[]", '["x"]', "null"),
    json("STRUCT<x: INT, y: STRING>", '{"x":1}', '{"z":1}', "[1]", '{"x":"y"}', "null", '{"x":1,"y":"b"}'),
    json("MAP<STRING, INT>", '{"x":1,"y":null}', '{"x":1,"x":2}', "[]", '{"x":"y","x":2}', "{}"),
    Case("json", "a LONG", ('{"a":1}\n{"a":"x"}\n{"a":3}',), {"mode": "DROPMALFORMED"}),
    Case("json", "a STRING", (b'{"a":"\xff"}',)),
    Case("text", "value STRING", (b"a\rb\r\nc\n\nd\xff", "\ufeffa\n", "a\x0bb\x85c\u2028d\n", "", "\n", "no end")),
    Case("text", "value STRING", (b"caf\xe9\n",), {"encoding": "ISO-8859-1"}),
]

#: What Spark accepts, and the local engine refuses with an error that says so.
ONLY_ON_SPARK = [
    csv("n DOUBLE", "0x1p3"),
    Case("json", "a LONG", ("{'a':1}",)),
    json("STRING", '{"x": 1}', "[1, 2]", '"\\ud800"'),
]


@pytest.fixture
def zone(spark: SparkSession) -> Any:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def of_spark(spark: SparkSession, case: Case, path: Path) -> Any:
    """What Spark reads: records in order, or None if it refuses a record."""
    reader: Any = spark.read.format(case.format).options(**{"mode": "FAILFAST", **case.options})
    charset = case.options.get("encoding")
    try:
        rows = reader.schema(case.schema).load(str(path))
        if charset is not None:
            return [(row[0].decode(charset),) for row in rows.select(rows[0].cast("binary")).collect()]
        if case.format == "text":
            rows = rows.selectExpr("make_valid_utf8(value)")
        return [tuple(map(plain, row)) for row in rows.collect()]
    except PySparkException:
        return None


def of_local(case: Case, path: Path) -> Any:
    options = dict(case.options) if case.format == "text" else {"mode": "FAILFAST", **case.options}
    env = environment(LOCAL)
    stream = env.read_format(case.format, str(path), case.schema, options)
    try:
        return [tuple(map(plain, row)) for row in records(stream)]
    except (TypeMismatchError, ConnectorError):
        return None


def records(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def plain(value: Any) -> Any:
    """A value in the form that both ways of reading can be compared in."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Row):
        return tuple(map(plain, value))
    if isinstance(value, float):
        return repr(value)
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def written(folder: Path, number: int, text: str | bytes) -> Path:
    path = folder / f"{number}.in"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_both_engines_read_the_same(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    different = []
    for number, case in enumerate(CASES):
        for line in case.lines:
            path = written(tmp_path, number, line)
            ours, theirs = of_local(case, path), of_spark(spark, case, path)
            if ours != theirs:
                different.append(f"{case.format} {case.schema} {dict(case.options)} {line!r}: {ours}, Spark: {theirs}")
    assert not different, "\n".join(different)


def test_what_only_spark_accepts_is_an_error(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    for number, case in enumerate(ONLY_ON_SPARK):
        for line in case.lines:
            path = written(tmp_path, number, line)
            assert of_spark(spark, case, path) is not None
            with pytest.raises(TidemillError):
                records(environment(LOCAL).read_format(case.format, str(path), case.schema, {"mode": "FAILFAST"}))


def test_columnar_files_are_read_alike(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    everything = (
        "select id, cast(id as int) i, cast(id as double)/3 d, cast(id/3 as decimal(10,2)) m, string(id) s, "
        "if(id % 2 = 0, null, binary(string(id))) b, date'2024-01-02' t, timestamp'2024-03-31 04:00:00' z, "
        "timestamp_ntz'2024-03-31 02:30:00' n, array(id, null) a, map('k', id) k, "
        "struct(id as x, string(id) as y) r from range(5)"
    )
    frame = spark.sql(everything)
    for form in ("parquet", "orc"):
        for name, schema in (("inferred", None), ("declared", "id LONG, i LONG, S STRING, missing DOUBLE")):
            if form == "orc" and schema is None:
                continue
            path = tmp_path / form
            chosen = frame if form == "parquet" else frame.drop("n")
            chosen.coalesce(1).write.mode("overwrite").format(form).save(str(path))
            both = [
                [tuple(map(plain, row)) for row in records(env.read_format(form, str(path), schema))]
                for env in (environment(LOCAL), environment())
            ]
            assert both[0] == both[1], (form, name)
    with pytest.raises(TidemillError, match="column 's' is string, but the schema requires int64"):
        records(environment(LOCAL).read_parquet(str(tmp_path / "parquet"), "s LONG"))
    legacy = tmp_path / "int96"
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        spark.sql("select timestamp'1600-01-01 00:00:00' z").coalesce(1).write.parquet(str(legacy))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", before or "INT96")
    ((moment,),) = records(environment(LOCAL).read_parquet(str(legacy)))
    ((other,),) = records(environment().read_parquet(str(legacy)))
    assert moment == other


def test_file_sources_and_compressed_files_are_read_alike(spark: SparkSession, zone: None, tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header()
    schema.add_array_column("tags").add_column("price", "DECIMAL(10, 2)")
    built = schema.build()
    rows = [(1, 'a "b", c', ["x", "y"], Decimal("1.50")), (2, "", [], None), (3, None, None, Decimal("0.01"))]
    folder = tmp_path / "csv"
    (folder / "below").mkdir(parents=True)
    with (folder / "below" / "part.csv").open("wb") as file:
        writer = CsvBulkWriters.for_schema(built).create(file)
        for row in rows:
            writer.add_element(row)
        writer.finish()
    (folder / "_hidden").write_text("not read")
    texts = tmp_path / "text"
    texts.mkdir()
    (texts / "a.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n") + gzip.compress(b"three\n"))
    (texts / "b.txt.bz2").write_bytes(bz2.compress(b"four\r\n"))

    def both(build: Callable[[StreamExecutionEnvironment], DataStream]) -> list[Any]:
        ours, theirs = (sorted(map(repr, records(build(env)))) for env in (environment(LOCAL), environment()))
        assert ours == theirs
        return ours

    def source(form: StreamFormat, *paths: Path) -> Callable[[StreamExecutionEnvironment], DataStream]:
        return lambda env: env.from_source(FileSource.for_record_stream_format(form, *paths).build(), None, "files")

    assert len(both(source(CsvReaderFormat.for_schema(built), folder / "below"))) == 3
    assert len(both(source(StreamFormat.text_line_format(), texts, folder / "below"))) == 8
    assert len(both(lambda env: env.read_text_file(str(texts / "{a,b}.*")))) == 4
    (texts / "c.txt.zst").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="cannot decompress"):
        records(environment(LOCAL).read_text_file(str(texts)))
