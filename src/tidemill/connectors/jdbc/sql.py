"""Translates JDBC placeholders in SQL to those of client libraries, and creates the SQL of an upsert."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidemill.errors import ConfigurationError

__all__ = ["Statement", "quoted_name", "upsert_sql"]

#: Literals, quoted names and comments of each database, in which a question mark is not a placeholder.
_OPAQUE: Final = {
    "postgresql": re.compile(
        r"""
          (?<![A-Za-z0-9_$])[eE]'(?:[^'\\]|''|\\.)*'      # E'...' has backslash escapes
        | '(?:[^']|'')*'
        | "(?:[^"]|"")*"
        | (?<![A-Za-z0-9_$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$
        | --[^\n]*
        """,
        re.VERBOSE | re.DOTALL,
    ),
    "sqlite": re.compile(
        r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?(?:\*/|\Z)""",
        re.VERBOSE | re.DOTALL,
    ),
}
_BLOCK: Final = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Statement:
    """A statement as the user wrote it, with ``?`` for the fields of a record, and its form for the client library.

    In literals, quoted names and comments, ``?`` is not a placeholder; ``??`` is PostgreSQL's operator ``?``.

    >>> statement = Statement.of("INSERT INTO t VALUES (?, 'why?', ? % 10) -- ok?", "postgresql")
    >>> statement.translated, statement.fields
    ("INSERT INTO t VALUES (%s, 'why?', %s %% 10) -- ok?", 2)
    """

    written: str
    translated: str
    fields: int

    @staticmethod
    def of(sql: str, kind: str) -> Statement:
        """Translate a statement for a kind of database; ``postgresql`` uses ``%s``, ``sqlite`` uses ``?``."""
        percent, placeholder = ("%%", "%s") if kind == "postgresql" else ("%", "?")
        parts: list[str] = []
        fields = position = 0
        while position < len(sql):
            opaque = _OPAQUE[kind].match(sql, position)
            if opaque is not None:
                end = opaque.end()
            elif kind == "postgresql" and sql.startswith("/*", position):
                end = _end_of_comment(sql, position)
            else:
                end = 0
            if end:
                parts.append(sql[position:end].replace("%", percent))
                position = end
                continue
            character = sql[position]
            if character != "?":
                parts.append(percent if character == "%" else character)
            elif kind == "postgresql" and sql.startswith("??", position):
                parts.append("?")
                position += 1
            else:
                parts.append(placeholder)
                fields += 1
            position += 1
        return Statement(sql, "".join(parts), fields)


def _end_of_comment(sql: str, start: int) -> int:
    """Return the end of a comment; comments can be nested in PostgreSQL."""
    depth = 0
    for mark in _BLOCK.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


def quoted_name(name: str) -> str:
    """Quote the name of a table; dots separate a schema from its table.

    >>> quoted_name('sales.order "lines"')
    '"sales"."order ""lines\"""'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def upsert_sql(table: str, columns: Sequence[str], key_columns: Sequence[str]) -> str:
    """Return a statement that inserts a row, or replaces the row with its key, for PostgreSQL and SQLite.

    >>> print(upsert_sql("totals", ["user", "total"], ["user"]))
    INSERT INTO "totals" ("user", "total") VALUES (?, ?) ON CONFLICT ("user") DO UPDATE SET "total" = excluded."total"
    """
    if isinstance(key_columns, str):
        raise ConfigurationError(f"the key columns of an upsert must be a list, not a string: [{key_columns!r}]")
    missing = [column for column in key_columns if column not in columns]
    if missing or not key_columns:
        raise ConfigurationError(
            f"an upsert into {table!r} needs key columns among the fields of its records ({', '.join(columns)}); "
            + (f"{', '.join(missing)} is not one of them" if missing else "none was given")
        )
    names = ", ".join(quoted_column(column) for column in columns)
    keys = ", ".join(quoted_column(column) for column in key_columns)
    rest = [quoted_column(column) for column in columns if column not in key_columns]
    action = "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in rest) if rest else "NOTHING"
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {quoted_name(table)} ({names}) VALUES ({marks}) ON CONFLICT ({keys}) DO {action}"  # noqa: S608


def quoted_column(name: str) -> str:
    """Quote the name of a column."""
    return '"' + name.replace('"', '""') + '"'
