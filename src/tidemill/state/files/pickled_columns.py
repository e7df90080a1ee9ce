"""Finds the columns of a state file that contain pickles: unpickling runs code chosen by the author of the file.

The description of a column specifies whether it contains pickles. If it specifies that there are none, nothing is
unpickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from tidemill.errors import CorruptFileError
from tidemill.state.codecs.column_codecs import METADATA_KEY, column_description
from tidemill.state.files.state_file_index import read_index

__all__ = ["pickled_states"]

#: The codecs that may contain pickles: ``tagged`` depending on its description, ``any`` always.
_TAGGED: Final = "tagged"
_ANY: Final = "any"


def pickled_states(data: bytes, name: str) -> Iterator[tuple[str, str]]:
    """The states (operator uid, name) of a state file that have pickles among their values, keys or namespaces.

    No value is decoded. Raises :class:`~tidemill.errors.CorruptFileError`, with the file's ``name``, if it is not a
    state file, and :class:`~tidemill.errors.SerializationError` for an invalid description.
    """
    view = memoryview(data)
    for section in read_index(view, name):
        for block in section.blocks:
            schema = _schema(view[block.offset : block.offset + block.length], name, block.offset)
            if any(_holds_pickles(column_description(field)) for field in schema if _is_encoded(field)):
                yield section.operator, section.state
                break


def _schema(block: memoryview, name: str, offset: int) -> Any:
    try:
        with pa.ipc.open_stream(pa.py_buffer(block)) as stream:
            return stream.schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"{name}: the block at offset {offset} is not an Arrow stream: {error}") from error


def _is_encoded(field: Any) -> bool:
    """Whether a column contains values of the program; other columns are plain numbers, which no codec reads."""
    return METADATA_KEY in (field.metadata or {})


def _holds_pickles(spec: Any) -> bool:
    if isinstance(spec, list):
        return any(map(_holds_pickles, spec))
    if not isinstance(spec, dict):
        return False
    codec = spec.get("codec")
    if codec == _ANY or (codec == _TAGGED and spec.get("pickle") is not False):
        return True
    return any(map(_holds_pickles, spec.values()))
