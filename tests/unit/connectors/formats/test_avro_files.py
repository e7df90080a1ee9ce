"""Avro's own files and Parquet files with Avro schemas: what is written is read, in any pieces."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import fastavro
import pyarrow.parquet as pq
import pytest

from tidemill.common import Configuration, Row, Types
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.file_system.formats import MergingBulkWriterFactory
from tidemill.connectors.sources import Split
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors import FileSink, FileSource, RollingPolicy
from tidemill.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from tidemill.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from tidemill.errors import ConfigurationError, SerializationError, TypeMismatchError
from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source

UTC = dt.timezone.utc
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
ORDER = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "note", "type": ["null", "string"], "default": None},
                {"name": "items", "type": {"type": "array", "items": ITEM}},
                {"name": "more", "type": {"type": "map", "values": "int"}},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
                {"name": "first", "type": "Item"},
            ],
        }
    )
)
NUMBER = AvroSchema('{"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}')


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "note": None if number % 2 else f"note {number}",
        "items": [{"sku": "a"}, {"sku": str(number)}],
        "more": {"x": number},
        "at": dt.datetime(2024, 1, 1, 0, 0, number % 60, tzinfo=UTC),
        "price": Decimal(number) / 100 + Decimal("0.00"),
        "first": {"sku": "f"},
    }


def records_of(file: BinaryIO) -> list[dict[str, Any]]:
    found: Any = list(fastavro.reader(file))
    records: list[dict[str, Any]] = found
    return records


def write_numbers(path: Path, numbers: range, **options: Any) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, json.loads(str(NUMBER)), [{"n": number} for number in numbers], **options)


class TestSchema:
    def test_is_json(self, tmp_path: Path) -> None:
        path = tmp_path / "n.avsc"
        path.write_text(str(NUMBER))
        assert AvroSchema.parse_file(str(path)) == NUMBER
        assert (str(NUMBER), hash(NUMBER)) == (str(AvroSchema(str(NUMBER))), hash(AvroSchema(str(NUMBER))))
        assert NUMBER != ORDER

    @pytest.mark.parametrize("text", ['"long"', '{"type": "record"}', "{"])
    def test_must_be_that_of_a_record(self, text: str) -> None:
        with pytest.raises(TypeMismatchError, match="Avro schema"):
            AvroSchema.parse_string(text)

    def test_type_of_records_is_stored_like_any_objects(self) -> None:
        kind = GenericRecordAvroTypeInfo(ORDER)
        kind.validate(order(1))
        assert TypeInformation.from_json(kind.to_json()) == Types.PICKLED_BYTE_ARRAY()
        assert "Order" in repr(kind)


class TestReading:
    @pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
    def test_files_of_a_directory(self, case: SourceCase, tmp_path: Path) -> None:
        write_numbers(tmp_path / "a.avro", range(11), sync_interval=1)
        write_numbers(tmp_path / "b.avro", range(0))
        write_numbers(tmp_path / "c.avro", range(11, 20), sync_interval=1, codec="deflate")
        (tmp_path / "_SUCCESS").touch()
        check_source(case, lambda: AvroInputFormat(str(tmp_path), NUMBER), [{"n": number} for number in range(20)])

    def test_one_file_with_large_blocks(self, tmp_path: Path) -> None:
        write_numbers(tmp_path / "a.avro", range(50_000))
        source = AvroInputFormat(f"file://{tmp_path}/a.avro", NUMBER)
        enumerator = source.create_enumerator(None)
        found, epochs = [], 0
        while not enumerator.finished:
            for split in enumerator.next_splits(2, 10_000):
                assert isinstance(split, Split)
                found += [record["n"] for batch in source.read(split) for record in batch.values]
            epochs += 1
        assert found == list(range(50_000))
        assert epochs > 3

    def test_records_are_converted_to_the_schema(self, tmp_path: Path) -> None:
        write_numbers(tmp_path / "a.avro", range(2))
        fields = [{"name": "n", "type": "double"}, {"name": "more", "type": "string", "default": "none"}]
        schema = AvroSchema(json.dumps({"type": "record", "name": "N", "fields": fields}))
        source = AvroInputFormat(str(tmp_path / "a.avro"), schema)
        (split,) = source.create_enumerator(None).next_splits(1, 10)
        assert isinstance(split, Split)
        (batch,) = source.read(split)
        assert batch.values == [{"n": 0.0, "more": "none"}, {"n": 1.0, "more": "none"}]

    def test_a_schema_that_does_not_fit_is_an_error_with_the_file(self, tmp_path: Path) -> None:
        write_numbers(tmp_path / "a.avro", range(2))
        schema = AvroSchema('{"type": "record", "name": "N", "fields": [{"name": "other", "type": "string"}]}')
        source = AvroInputFormat(str(tmp_path), schema)
        (split,) = source.create_enumerator(None).next_splits(1, 10)
        assert isinstance(split, Split)
        with pytest.raises(SerializationError, match=r"a\.avro cannot be read as Avro with the given schema"):
            list(source.read(split))

    def test_other_files_are_an_error_with_their_name(self, tmp_path: Path) -> None:
        (tmp_path / "a.avro").write_text("a, b")
        with pytest.raises(SerializationError, match=r"a\.avro is not an Avro file"):
            AvroInputFormat(str(tmp_path), NUMBER).create_enumerator(None).next_splits(1, 10)
        with pytest.raises(ConfigurationError, match="there is no file"):
            AvroInputFormat(str(tmp_path / "b"), NUMBER).create_enumerator(None)
        with pytest.raises(ConfigurationError, match="not 's3://bucket/a'"):
            AvroInputFormat("s3://bucket/a", NUMBER)

    def test_a_job_reads_them(self, tmp_path: Path) -> None:
        write_numbers(tmp_path / "a.avro", range(5))
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        )
        stream = env.create_input(AvroInputFormat(str(tmp_path), NUMBER))
        with stream.map(lambda record: record["n"], Types.LONG()).execute_and_collect() as numbers:
            assert list(numbers) == [0, 1, 2, 3, 4]
        wrong: Any = NUMBER
        with pytest.raises(TypeError, match="create_input"):
            env.create_input(wrong)


def written(factory: Any, records: list[Any]) -> io.BytesIO:
    file = io.BytesIO()
    writer = factory.create(file)
    for record in records:
        writer.add_element(record)
    writer.finish()
    return io.BytesIO(file.getvalue())


class TestWriting:
    def test_records_are_dicts_or_rows(self) -> None:
        row = Row(7, None, [Row("a")], {"x": 1}, dt.datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.20"), Row("f"))
        file = written(AvroBulkWriters.for_generic_record(ORDER), [order(1), order(2), row])
        first, second, third = records_of(file)
        assert (first, second) == (order(1), order(2))
        assert (third["id"], third["items"], third["price"]) == (7, [{"sku": "a"}], Decimal("1.20"))

    def test_missing_fields_get_their_defaults_and_others_are_errors(self) -> None:
        short = {name: value for name, value in order(1).items() if name != "note"}
        (found,) = records_of(written(AvroBulkWriters.for_generic_record(ORDER), [short]))
        assert found == order(1)
        for record in ({"n": 1, "m": 2}, {"n": "text"}, {}):
            with pytest.raises(SerializationError, match="does not fit its Avro schema"):
                written(AvroBulkWriters.for_generic_record(NUMBER), [record])
            with pytest.raises(SerializationError):
                AvroRowSerializationSchema(avro_schema_string=str(NUMBER)).serialize(record)

    def test_times_without_a_zone_are_in_utc(self) -> None:
        record = {**order(1), "at": dt.datetime(2024, 1, 1)}  # noqa: DTZ001 - as many programs have it
        (found,) = records_of(written(AvroBulkWriters.for_generic_record(ORDER), [record]))
        assert found["at"] == dt.datetime(2024, 1, 1, tzinfo=UTC)

    def test_files_are_merged_by_their_blocks(self, tmp_path: Path) -> None:
        factory = AvroBulkWriters.for_generic_record(NUMBER)
        assert isinstance(factory, MergingBulkWriterFactory)
        paths = [tmp_path / name for name in ("a", "b")]
        for start, path in enumerate(paths):
            path.write_bytes(written(factory, [{"n": start}, {"n": start + 10}]).getvalue())
        merged = io.BytesIO()
        factory.merge(paths, merged)
        assert [record["n"] for record in records_of(io.BytesIO(merged.getvalue()))] == [0, 10, 1, 11]

    def test_parquet_has_the_columns_of_the_schema(self) -> None:
        table = pq.read_table(written(AvroParquetWriters.for_generic_record(ORDER), [order(1), order(2)]))
        assert table.column("id").to_pylist() == [1, 2]
        assert table.column("items").to_pylist()[1] == [{"sku": "a"}, {"sku": "2"}]
        assert table.column("price").to_pylist() == [Decimal("0.01"), Decimal("0.02")]

    def test_what_columns_cannot_be(self) -> None:
        def of(kind: Any) -> AvroSchema:
            return AvroSchema(json.dumps({"type": "record", "name": "N", "fields": [{"name": "n", "type": kind}]}))

        for kind, says in (
            (["int", "string"], "Avro's union has no counterpart"),
            ({"type": "int", "logicalType": "time-millis"}, "Avro's time-millis has no counterpart"),
            (["null", "N"], "'N' contains itself"),
        ):
            with pytest.raises(TypeMismatchError, match=says):
                AvroParquetWriters.for_generic_record(of(kind))

    @pytest.mark.parametrize(
        "policy", [RollingPolicy.on_checkpoint_rolling_policy(), RollingPolicy.default_rolling_policy()], ids=repr
    )
    def test_a_job_writes_them(self, tmp_path: Path, policy: RollingPolicy) -> None:
        configuration = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        stream = env.from_collection([order(number) for number in range(7)])
        builder = FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record(ORDER))
        sink = builder.with_rolling_policy(policy).build()
        stream.map(lambda record: record, output_type=GenericRecordAvroTypeInfo(ORDER)).sink_to(sink)
        env.execute()
        found = []
        for path in tmp_path.rglob("part-*"):
            with path.open("rb") as file:
                found += records_of(file)
        assert sorted(record["id"] for record in found) == list(range(7))


def test_a_parquet_source_has_a_decoder_and_its_type(tmp_path: Path) -> None:
    source = FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(ORDER), str(tmp_path)).build()
    assert source.type_info == GenericRecordAvroTypeInfo(ORDER)
    table = pq.read_table(written(AvroParquetWriters.for_generic_record(ORDER), [order(1), order(2)]))
    assert source.decoder is not None
    (batch,) = table.append_column("file", [["x", "y"]]).to_batches()
    assert source.decoder.decode(batch).values == [order(1), order(2)]
