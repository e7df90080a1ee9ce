"""CSV files of state: plain columns unchanged, bytes as base64, nested columns as JSON text."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv

from tidemill.python_versions import Self
from tidemill.state.codecs.plain_values import json_text

__all__ = ["CsvWriter"]


class CsvWriter:
    """Writes Arrow batches of one schema to a CSV file with a header; has the same interface as Arrow's own writers."""

    def __init__(self, path: str, schema: Any) -> None:
        self._schema = pa.schema([(field.name, _flat(field.type)) for field in schema])
        self._writer = pv.CSVWriter(path, self._schema)

    def write_batch(self, batch: Any) -> None:
        """Write the rows of a batch."""
        columns = [
            column if column.type == field.type else pa.array(map(_text, column.to_pylist()), field.type)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._writer.close()


def _flat(kind: Any) -> Any:
    """The type of a column in the file."""
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return pa.large_string() if pa.types.is_nested(kind) or is_bytes else kind


def _text(value: Any) -> str | None:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else json_text(value)
