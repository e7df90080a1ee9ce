"""CSV files of state: every type of column has a form in it."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa

from tidemill.state_processor.csv_file import CsvWriter


def test_plain_columns_stay_and_nested_ones_are_json(tmp_path: Path) -> None:
    batch = pa.record_batch(
        {
            "key": pa.array(["a,b", 'say "x"', None], pa.large_string()),
            "number": pa.array([1, None, 3]),
            "data": pa.array([b"\x00\xff", None, b""], pa.large_binary()),
            "pair": pa.array([{"f0": "x", "f1": 0.5}, None, {"f0": None, "f1": float("nan")}]),
            "list": pa.array([[b"\x01"], [], None], pa.large_list(pa.binary())),
        }
    )
    with CsvWriter(str(tmp_path / "state.csv"), batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(0, 0))
    with (tmp_path / "state.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["key", "number", "data", "pair", "list"],
        ["a,b", "1", "AP8=", '{"f0": "x", "f1": 0.5}', '[{"$bytes": "AQ=="}]'],
        ['say "x"', "", "", "", "[]"],
        ["", "3", "", '{"f0": null, "f1": "nan"}', ""],
    ]
