"""Columns that the directories of watched files name: ``country=de`` is the value ``de`` of column ``country``.

Spark finds such columns in the paths it is given, but takes the names of single files for patterns while it does, and
then reads some files twice. So the names of directories are read here, from the file that each row is from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

__all__ = ["column_types", "columns_in", "with_partition_columns"]

#: The directory of rows that have no value in the column.
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: The types that values have by themselves, the narrowest first; what fits none is a string.
_TYPES: Final = (
    ("INT", re.compile(r"[+-]?\d{1,9}")),
    ("BIGINT", re.compile(r"[+-]?\d{1,18}")),
    ("DOUBLE", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")),
    ("DATE", re.compile(r"\d{4}-\d\d-\d\d")),
)


def columns_in(path: str, root_depth: int) -> dict[str, str]:
    """The columns that the directories of a file name, with their values; its first ``root_depth`` parts do not count.

    >>> columns_in("/in/country=de/day=1/a=b.json", 2)
    {'country': 'de', 'day': '1'}
    """
    pairs = (part.partition("=") for part in path.split("/")[root_depth:-1])
    return {unquote(name): unquote(value) for name, equals, value in pairs if equals}


def column_types(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The type of each column, from values that were found.

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
    """The frame with the columns that the directories of all its files name.

    ``root_depth`` is how many parts the name of a file has, as Spark writes it, before those that are looked at.
    """
    folders = F.slice(F.split(F.input_file_name(), "/"), root_depth + 1, 1000)
    for name, kind in types.items():
        value = _value(folders, name)
        frame = frame.withColumn(name, F.when(value != _NULL, value).cast(kind))
    return frame


def _value(folders: Column, name: str) -> Column:
    """The value in the first directory of a column, null where there is none."""
    pairs = F.transform(
        F.filter(folders, lambda folder: F.instr(folder, "=") > 0), lambda folder: F.split(folder, "=", 2)
    )
    mine = F.filter(pairs, lambda pair: F.lower(_decoded(_decoded(pair[0]))) == F.lit(name.lower()))
    return _decoded(_decoded(F.get(F.get(mine, F.lit(0)), F.lit(1))))


def _decoded(text: Column) -> Column:
    """``%20`` as a space: once for the name of a file as Spark writes it, once as Spark writes values into names."""
    return F.coalesce(F.try_url_decode(F.replace(text, F.lit("+"), F.lit("%2B"))), text)
