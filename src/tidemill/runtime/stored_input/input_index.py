"""The index of a folder of materialized input, which lists the Parquet files of each part of the input in order.

Files that Spark writes need no index: Spark writes one file per part, and makes them visible when all are complete.
Files that tasks store themselves need one, because a task that is retried stores its files twice. The index is a
:mod:`~tidemill.checkpoint.frame` with magic ``TMINPUT\\n`` and version 1. Its header has ``parts``, a list of ``[name,
files]``, where a file is ``[name in the folder, bytes, [rows of each row group]]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidemill.checkpoint.frame import pack, unpack
from tidemill.checkpoint.manifest import decode_header
from tidemill.checkpoint.names import check_name
from tidemill.checkpoint.storage.storages import NotFoundError, Storage
from tidemill.errors import CorruptFileError
from tidemill.runtime.stored_input.stored_parquet import opened

MAGIC: Final = b"TMINPUT\n"
VERSION: Final = 1
#: The name of the index in its folder.
INDEX: Final = "files.index"

_SUFFIX: Final = ".parquet"


@dataclass(frozen=True)
class InputFile:
    """A Parquet file: its name in the folder, its size in bytes, and the number of rows in each of its row groups."""

    name: str
    size: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class InputPart:
    """A part of the input, which has its own event time. Its rows are in these files, in this order."""

    name: str
    files: tuple[InputFile, ...]


def write_index(storage: Storage, folder: str, parts: Iterable[InputPart]) -> None:
    """Store the index of a folder (whose name ends with a slash). Its files must already be stored."""
    listed = [[part.name, [[file.name, file.size, list(file.rows)] for file in part.files]] for part in parts]
    storage.write(f"{folder}{INDEX}", pack(MAGIC, VERSION, {"parts": listed}, ()))


def parts_of(storage: Storage, folder: str) -> list[InputPart]:
    """Return the parts of the input in a folder, in a stable order.

    Without an index, each file is a part. Raises :class:`~tidemill.errors.CorruptFileError` for a damaged index, and
    for a folder that has neither an index nor files. Input without rows has an empty index, or an empty file written
    by Spark.
    """
    name = f"{folder}{INDEX}"
    try:
        data = storage.read(name)
    except NotFoundError:
        return _looked_up(storage, folder)
    frame = unpack(data, MAGIC, VERSION, name)
    return decode_header(name, lambda: _from_header(frame.header, folder))


def names_in(storage: Storage, folder: str) -> set[str]:
    """Return the storage names of the index of a folder and of all files that it lists."""
    return {f"{folder}{INDEX}", *(f"{folder}{file.name}" for part in parts_of(storage, folder) for file in part.files)}


def _from_header(header: dict[str, Any], folder: str) -> list[InputPart]:
    if header.keys() != {"parts"}:
        raise ValueError(f"the fields are {sorted(header)}")
    return [InputPart(str(name), tuple(_file(file, folder) for file in files)) for name, files in header["parts"]]


def _file(described: Sequence[Any], folder: str) -> InputFile:
    name, size, rows = described
    check_name(f"{folder}{name}")
    if any(type(number) is not int or number < 0 for number in (size, *rows)):
        raise ValueError(f"the numbers of file {name!r:.200} are {size!r:.50} and {rows!r:.200}")
    return InputFile(name, size, tuple(rows))


def _looked_up(storage: Storage, folder: str) -> list[InputPart]:
    parts = []
    for name in storage.list(folder):
        inside = name.removeprefix(folder)
        if not inside.endswith(_SUFFIX) or "/" in inside:
            continue
        size = storage.size(name)
        with opened(storage, name, size) as file:
            rows = tuple(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))
        parts.append(InputPart(inside, (InputFile(inside, size, rows),)))
    if not parts:
        raise CorruptFileError(
            f"{folder} in the job's directory is missing or empty. It contained the rows of a bounded source. Start "
            "from an earlier savepoint, or start without state with execution.resume-mode: none"
        )
    return parts
