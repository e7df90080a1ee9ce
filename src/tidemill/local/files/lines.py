"""Splits files into lines, as Hadoop's line reader does: at ``\\n``, ``\\r\\n`` and ``\\r``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow as pa

from tidemill.local.files.format import BATCH_ROWS, ReadFormat

__all__ = ["TextFormat", "line_batches"]

_CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


def line_batches(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a file without line ends, some at a time. A byte order mark at the beginning is removed."""
    rest = file.read(_CHUNK).removeprefix(_BOM)
    begun: list[bytes] = []
    while rest:
        more = file.read(_CHUNK)
        # A line end of two bytes may be divided between two chunks.
        if more and rest.endswith(b"\r"):
            byte, more = more[:1], more[1:] + (file.read(1) if len(more) == 1 else b"")
            rest += byte
        lines = rest.splitlines()
        ended = rest.endswith((b"\n", b"\r"))
        begun.append(lines[0])
        if len(lines) > 1 or ended or not more:
            lines[0], begun = b"".join(begun), []
            if more and not ended:
                begun = [lines.pop()]
            for start in range(0, len(lines), BATCH_ROWS):
                yield lines[start : start + BATCH_ROWS]
        rest = more


class TextFormat(ReadFormat):
    """One string for each line."""

    def __init__(self, charset: str = "utf-8") -> None:
        self._charset = charset

    def schema(self, example: BinaryIO | None) -> pa.Schema:
        return pa.schema([("value", pa.string())])

    def batches(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for lines in line_batches(file):
            yield pa.RecordBatch.from_arrays([self._texts(lines)], schema=schema)

    def _texts(self, lines: list[bytes]) -> pa.Array:
        if self._charset == "utf-8":
            try:
                return pa.array(lines, pa.binary()).cast(pa.string())
            except pa.ArrowInvalid:
                pass  # invalid bytes are replaced below
        return pa.array([line.decode(self._charset, "replace") for line in lines], pa.string())
