"""Partition columns in the directory names of watched files: ``country=de`` is the value ``de`` of column ``country``.

Spark can find such columns in paths. But when it does, it treats the names of single files as patterns, and then reads
some files twice. This module therefore derives the columns from the file name of each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

__all__ = ["column_types", "columns_in", "with_partition_columns"]

#: The directory name of rows without a value in the column.
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: The types that are inferred from values, the narrowest first. A value that matches none is a string.
_TYPES: Final = (
    ("INT", re.compile(r"[+-]?\d{1,9}")),
    ("BIGINT", re.compile(r"[+-]?\d{1,18}")),
    ("DOUBLE", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")),
    ("DATE", re.compile(r"\d{4}-\d\d-\d\d")),
)


def columns_in(path: str, root_depth: int) -> dict[str, str]:
    """Return the columns and values in the directory names of a path; the first ``root_depth`` parts are skipped.

    >>> columns_in("/in/country=de/day=1/a=b.json", 2)
    {'country': 'de', 'day': '1'}
    """
    pairs = (part.partition("=") for part in path.split("/")[root_depth:-1])
    return {unquote(name): unquote(value) for name, equals, value in pairs if equals}


def column_types(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Infer the type of each column from its values.

    >>> column_types([{"day": "1"}, {"day": "02", "country": "de"}])
    {'day': 'INT', 'country': 'STRING'}
    """
    values: dict[str, set[str]] = {}
    for columns in found:
        for name, value in columns.items():
            values.setdefault(name, set()).add(value)
    return {
        name: next((kind for kind, form in _TYPES if all(form.fullmatch(value) for value in some - {_NULL})), "STRING")
        for name, some in values.items()
    }


def with_partition_columns(frame: DataFrame, types: Mapping[str, str], root_depth: int) -> DataFrame:
    """Add the partition columns in the directory names of its files to a frame.

    ``root_depth`` is the number of leading parts of a file name, as Spark writes it, that are skipped.
    """
    folders = F.slice(F.split(F.input_file_name(), "/"), root_depth + 1, 1000)
    for name, kind in types.items():
        value = _value(folders, name)
        frame = frame.withColumn(name, F.when(value != _NULL, value).cast(kind))
    return frame


def _value(folders: Column, name: str) -> Column:
    """Return the value of a column in the first directory that has it, or null if there is none."""
    pairs = F.transform(
        F.filter(folders, lambda folder: F.instr(folder, "=") > 0), lambda folder: F.split(folder, "=", 2)
    )
    mine = F.filter(pairs, lambda pair: F.lower(_decoded(_decoded(pair[0]))) == F.lit(name.lower()))
    return _decoded(_decoded(F.get(F.get(mine, F.lit(0)), F.lit(1))))


def _decoded(text: Column) -> Column:
    """Decode ``%20`` to a space. Apply it twice: Spark encodes values in directory names, and then the file name."""
    return F.coalesce(F.try_url_decode(F.replace(text, F.lit("+"), F.lit("%2B"))), text)
