"""Translates JDBC placeholders in SQL to those of client libraries, and creates the SQL of an upsert."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidemill.errors import ConfigurationError

__all__ = ["Statement", "quoted_column", "quoted_name", "upsert_sql"]


@dataclass(frozen=True)
class _Syntax:
    """The syntax of a database's SQL, and the placeholders of its client library.

    ``opaque`` matches literals, quoted names and comments, in which a question mark is not a placeholder.
    """

    opaque: re.Pattern[str]
    placeholder: str = "%s"
    #: Whether block comments can be nested; then they are not part of ``opaque``.
    nested_comments: bool = False
    #: Whether ``??`` is an operator of the database.
    operator: bool = False
    #: What encloses a quoted name; the closing mark is doubled inside.
    quotes: str = '""'

    @property
    def percent(self) -> str:
        """How a percent sign is written for the client library."""
        return "%%" if self.placeholder == "%s" else "%"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.VERBOSE | re.DOTALL)


#: By the kind of database in its URL.
_SYNTAX: Final = {
    "postgresql": _Syntax(
        _pattern(r"""
          (?<![A-Za-z0-9_$])[eE]'(?:[^'\\]|''|\\.)*'      # E'...' has backslash escapes
        | '(?:[^']|'')*'
        | "(?:[^"]|"")*"
        | (?<![A-Za-z0-9_$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$
        | --[^\n]*
        """),
        nested_comments=True,
        operator=True,
    ),
    "sqlite": _Syntax(
        _pattern(r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] | --[^\n]* | /\*.*?(?:\*/|\Z)"""),
        placeholder="?",
    ),
    "mysql": _Syntax(
        # Strings have backslash escapes; a comment with two dashes needs white space after them.
        _pattern(r"""
          '(?:[^'\\]|''|\\.)*' | "(?:[^"\\]|""|\\.)*" | `(?:[^`]|``)*`
        | --(?=\s|\Z)[^\n]* | \#[^\n]* | /\*.*?(?:\*/|\Z)
        """),
        quotes="``",
    ),
    "sqlserver": _Syntax(
        _pattern(r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \[(?:[^\]]|\]\])*\] | --[^\n]*"""),
        nested_comments=True,
        quotes="[]",
    ),
    "oracle": _Syntax(
        _pattern(r"""
          (?<![A-Za-z0-9_$\#])[nN]?[qQ]'(?:\[.*?\]'|\{.*?\}'|<.*?>'|\(.*?\)'|(?P<mark>[^\s\[{<(]).*?(?P=mark)')
        | '(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?(?:\*/|\Z)
        """),
        placeholder=":",
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
        """Translate a statement for a kind of database: to ``%s``, ``?`` for SQLite, ``:1`` and so on for Oracle."""
        syntax = _SYNTAX[kind]
        parts: list[str] = []
        fields = position = 0
        while position < len(sql):
            end = _end_of_opaque(sql, position, syntax)
            if end:
                parts.append(sql[position:end].replace("%", syntax.percent))
                position = end
                continue
            character = sql[position]
            if character != "?":
                parts.append(syntax.percent if character == "%" else character)
            elif syntax.operator and sql.startswith("??", position):
                parts.append("?")
                position += 1
            else:
                fields += 1
                parts.append(f":{fields}" if syntax.placeholder == ":" else syntax.placeholder)
            position += 1
        return Statement(sql, "".join(parts), fields)


def _end_of_opaque(sql: str, position: int, syntax: _Syntax) -> int:
    """Return the end of the literal, quoted name or comment that begins here; 0 if none does."""
    opaque = syntax.opaque.match(sql, position)
    if opaque is not None:
        return opaque.end()
    if syntax.nested_comments and sql.startswith("/*", position):
        return _end_of_comment(sql, position)
    return 0


def _end_of_comment(sql: str, start: int) -> int:
    """Return the end of a comment that can contain other comments."""
    depth = 0
    for mark in _BLOCK.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


def quoted_name(name: str, kind: str = "postgresql") -> str:
    """Quote the name of a table; dots separate a schema from its table.

    >>> quoted_name('sales.order "lines"'), quoted_name("sales.orders", "mysql")
    ('"sales"."order ""lines\"""', '`sales`.`orders`')
    """
    return ".".join(quoted_column(part, kind) for part in name.split("."))


def quoted_column(name: str, kind: str = "postgresql") -> str:
    """Quote the name of a column."""
    quotes = _SYNTAX[kind].quotes
    return quotes[0] + name.replace(quotes[1], quotes[1] * 2) + quotes[1]


def upsert_sql(table: str, columns: Sequence[str], key_columns: Sequence[str], kind: str = "postgresql") -> str:
    """Return a statement that inserts a row, or replaces the row with its key.

    >>> print(upsert_sql("totals", ["user", "total"], ["user"]))
    INSERT INTO "totals" ("user", "total") VALUES (?, ?) ON CONFLICT ("user") DO UPDATE SET "total" = excluded."total"
    >>> print(upsert_sql("totals", ["user", "total"], ["user"], "mysql"))
    INSERT INTO `totals` (`user`, `total`) VALUES (?, ?) ON DUPLICATE KEY UPDATE `total` = VALUES(`total`)
    """
    if isinstance(key_columns, str):
        raise ConfigurationError(f"the key columns of an upsert must be a list, not a string: [{key_columns!r}]")
    missing = [column for column in key_columns if column not in columns]
    if missing or not key_columns:
        raise ConfigurationError(
            f"an upsert into {table!r} needs key columns among the fields of its records ({', '.join(columns)}); "
            + (f"{', '.join(missing)} is not one of them" if missing else "none was given")
        )
    if kind in ("sqlserver", "oracle"):
        raise ConfigurationError(
            f"an upsert into {table!r} cannot be generated for this database: write a MERGE statement for "
            "JdbcSink.sink()"
        )
    names = ", ".join(quoted_column(column, kind) for column in columns)
    keys = ", ".join(quoted_column(column, kind) for column in key_columns)
    rest = [quoted_column(column, kind) for column in columns if column not in key_columns]
    marks = ", ".join("?" for _ in columns)
    insert = f"INSERT INTO {quoted_name(table, kind)} ({names}) VALUES ({marks})"  # noqa: S608 - quoted
    if kind == "mysql":
        # An assignment of the key to itself changes nothing, as DO NOTHING does.
        same = [f"{name} = VALUES({name})" for name in rest] or [f"{keys.split(', ')[0]} = {keys.split(', ')[0]}"]
        return f"{insert} ON DUPLICATE KEY UPDATE {', '.join(same)}"
    action = "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in rest) if rest else "NOTHING"
    return f"{insert} ON CONFLICT ({keys}) DO {action}"
