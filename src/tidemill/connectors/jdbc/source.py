"""A bounded source for tables and queries, read in partitions by the workers, without a JDBC driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.database import Database
from tidemill.connectors.jdbc.databases import database_of
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.reading import RecordMaker
from tidemill.connectors.jdbc.sql import Statement, quoted_column, quoted_name
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["JdbcSource", "JdbcSourceBuilder"]

_FETCH_SIZE: Final = 8192
#: The kinds of databases that can be read.
_READABLE: Final = frozenset({"postgresql", "sqlite", "mysql"})
#: A bound of a partition, as passed to the database: dates and times as strings.
Cut = int | str


@dataclass(frozen=True)
class _Partitions:
    """How rows are divided into partitions: by a column, from a lower to an upper bound, in equal strides."""

    column: str
    number: int
    lower: Any = None
    upper: Any = None


class JdbcSource(SplitSource):
    """Reads a table or query to its end; created with :meth:`builder`.

    In each epoch, each subtask reads one partition, in its own transaction and from a consistent snapshot. A position
    is the number of partitions read so far. The source can therefore be replayed as long as the rows of partitions that
    are not committed yet do not change.

    >>> source = JdbcSource.builder().set_db_url("jdbc:sqlite:/data/shop.db").set_table("orders").build()
    >>> source.bounded, source.replayable
    (True, True)
    """

    bounded = True
    replayable = True

    def __init__(
        self,
        database: Database,
        sql: str,
        type_info: TypeInformation | None,
        partitions: _Partitions | None,
        fetch_size: int,
    ) -> None:
        self.type_info = type_info
        self.parallelism = 1 if partitions is None else None
        self._database = database
        self._sql = sql
        self._partitions = partitions
        self._fetch_size = fetch_size
        RecordMaker(type_info)

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        """Start building a source."""
        return JdbcSourceBuilder()

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator of partitions; their bounds are determined once, and are part of the position."""
        if position is None:
            return _PartitionEnumerator(self._cuts(), 0)
        return _PartitionEnumerator(list(position["cuts"]), int(position["next"]))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Read the rows of one partition."""
        low, high = split.payload
        statement, parameters = self._query(low, high)
        database, maker = self._database, RecordMaker(self.type_info)
        session = database.connect()
        try:
            with closing(session.read(statement.translated, parameters, self._fetch_size)) as batches:
                for names, rows in batches:
                    yield RecordBatch(maker.make(names, rows))
        except database.errors as error:
            raise self._failed(error, statement) from None
        finally:
            session.close()

    def _query(self, low: Cut | None, high: Cut | None) -> tuple[Statement, list[Cut]]:
        """Return the query of one partition.

        The first partition includes all rows below its bound and nulls, the last one all remaining rows.
        """
        if self._partitions is None or low == high:
            return Statement.of(self._sql, self._database.kind), []
        column = self._qualified(self._partitions.column)
        conditions = []
        if low is not None:
            conditions.append(f"{column} >= ?")
        if high is not None:
            conditions.append(f"{column} < ?" if low is not None else f"({column} < ? OR {column} IS NULL)")
        sql = f"SELECT * FROM ({self._sql}) tidemill_rows WHERE {' AND '.join(conditions)}"  # noqa: S608 - the user's
        return Statement.of(sql, self._database.kind), [cut for cut in (low, high) if cut is not None]

    def _cuts(self) -> list[Cut]:
        """Return the bounds between partitions."""
        wanted = self._partitions
        if wanted is None:
            return []
        lower, upper = wanted.lower, wanted.upper
        if lower is None or upper is None:
            found = self._bounds(wanted.column)
            lower, upper = (found[0] if lower is None else lower), (found[1] if upper is None else upper)
        if lower is None or upper is None:
            return []  # there are no rows, or all values are null
        return _cut(lower, upper, wanted)

    def _bounds(self, column: str) -> tuple[Any, Any]:
        name = self._qualified(column)
        sql = f"SELECT min({name}), max({name}) FROM ({self._sql}) tidemill_rows"  # noqa: S608 - the user's
        statement = Statement.of(sql, self._database.kind)
        session = self._database.connect()
        try:
            ((_, ((low, high),)),) = session.read(statement.translated, (), 1)
        except self._database.errors as error:
            raise self._failed(error, statement) from None
        finally:
            session.close()
        return low, high

    def _qualified(self, column: str) -> str:
        """Qualify a column of the query. SQLite would treat an unqualified name of a missing column as a string."""
        return f"tidemill_rows.{quoted_column(column, self._database.kind)}"

    def _failed(self, error: Exception, statement: Statement) -> ConnectorError:
        return ConnectorError(
            f"{self._database.shown} could not be read: {self._database.words(error)}\n  query: {statement.written}"
        )


class JdbcSourceBuilder:
    """Builds a :class:`JdbcSource`."""

    def __init__(self) -> None:
        self._options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        self._sql: str | None = None
        self._table: str | None = None
        self._type_info: TypeInformation | None = None
        self._partitions: _Partitions | None = None
        self._fetch_size = _FETCH_SIZE

    def set_db_url(self, db_url: str) -> JdbcSourceBuilder:
        """Set the database: ``jdbc:postgresql://host:port/database`` or ``jdbc:sqlite:/path/of/the/file``."""
        self._options.with_url(db_url)
        return self

    def set_username(self, username: str) -> JdbcSourceBuilder:
        """Set the user name."""
        self._options.with_user_name(username)
        return self

    def set_password(self, password: str) -> JdbcSourceBuilder:
        """Set the password; it is sent to the workers with the job, and is never displayed."""
        self._options.with_password(password)
        return self

    def set_connection_check_timeout_seconds(self, seconds: int) -> JdbcSourceBuilder:
        """Set the maximum time to establish a connection."""
        self._options.with_connection_check_timeout_seconds(seconds)
        return self

    def set_sql(self, sql: str) -> JdbcSourceBuilder:
        """Set the query, which must not have parameters."""
        self._sql = sql.strip().rstrip(";")
        self._table = None
        return self

    def set_table(self, table: str) -> JdbcSourceBuilder:
        """Read all rows and columns of a table, instead of a query."""
        self._table = table
        return self

    def set_type_information(self, type_info: TypeInformation) -> JdbcSourceBuilder:
        """Set the type of records: rows, tuples or, for a single column, values. By default rows with column names."""
        self._type_info = type_info
        return self

    def set_partitions(
        self, column: str, number: int, lower_bound: Any = None, upper_bound: Any = None
    ) -> JdbcSourceBuilder:
        """Read in ``number`` partitions by a column of integers, dates or timestamps, preferably with an index.

        As in Spark, the bounds only determine the partition strides: rows beyond them are read as well, in the first
        and the last partition. Without bounds, the column's minimum and maximum are queried.
        """
        if number < 1:
            raise ConfigurationError("a table must be read in at least one partition")
        self._partitions = _Partitions(column, number, lower_bound, upper_bound)
        return self

    def set_result_set_fetch_size(self, fetch_size: int) -> JdbcSourceBuilder:
        """Set the number of rows that are fetched, and so are in memory, at a time."""
        if fetch_size < 1:
            raise ConfigurationError("the fetch size must be at least 1")
        self._fetch_size = fetch_size
        return self

    def build(self) -> JdbcSource:
        """Build the source."""
        if self._sql is None and self._table is None:
            raise ConfigurationError("a database source needs a query: call set_sql() or set_table()")
        database = database_of(self._options.build())
        if database.kind not in _READABLE:
            raise ConfigurationError(f"a JdbcSource cannot read {database.shown}: read it with Spark's JDBC format")
        if self._table is None:
            sql = str(self._sql)
        else:
            sql = f"SELECT * FROM {quoted_name(self._table, database.kind)}"  # noqa: S608 - quoted
        if Statement.of(sql, database.kind).fields:
            raise ConfigurationError(
                f"the query of a source must not have parameters, but this one has placeholders: {sql} "
                "(write ?? for PostgreSQL's operator ?)"
            )
        return JdbcSource(database, sql, self._type_info, self._partitions, self._fetch_size)


class _PartitionEnumerator(SplitEnumerator):
    def __init__(self, cuts: list[Cut], done: int) -> None:
        self._cuts = cuts
        self._next = done

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        edges: list[Cut | None] = [None, *self._cuts, None]
        chosen = range(self._next, min(len(self._cuts) + 1, self._next + parallelism))
        self._next = chosen.stop
        return [Split((edges[number], edges[number + 1]), 0) for number in chosen]

    def position(self) -> Position:
        return {"cuts": self._cuts, "next": self._next}

    @property
    def finished(self) -> bool:
        return self._next > len(self._cuts)


def _cut(lower: Any, upper: Any, wanted: _Partitions) -> list[Cut]:
    """Return the bounds between partitions; there are fewer partitions if the range has fewer distinct values."""
    low, high = _as_number(lower, wanted.column), _as_number(upper, wanted.column)
    if type(lower) is not type(upper) or low > high:
        raise ConfigurationError(
            f"cannot create partitions by {wanted.column!r} from {lower!r} to {upper!r}: the lower bound must come "
            "first, and both must have the same type"
        )
    span = high - low + 1
    number = min(wanted.number, span)
    return [_as_cut(low + span * index // number, lower) for index in range(1, number)]


def _as_number(bound: Any, column: str) -> int:
    if isinstance(bound, dt.datetime):
        return (bound - dt.datetime(1970, 1, 1, tzinfo=bound.tzinfo)) // dt.timedelta(microseconds=1)
    if isinstance(bound, dt.date):
        return bound.toordinal()
    if isinstance(bound, int) and not isinstance(bound, bool):
        return bound
    raise ConfigurationError(
        f"column {column!r} cannot be partitioned at {bound!r}: only integers, dates and timestamps are supported. "
        "Use other bounds, or another column."
    )


def _as_cut(number: int, like: Any) -> Cut:
    if isinstance(like, dt.datetime):
        moment = dt.datetime(1970, 1, 1, tzinfo=like.tzinfo) + dt.timedelta(microseconds=number)
        return moment.isoformat(sep=" ")
    return dt.date.fromordinal(number).isoformat() if isinstance(like, dt.date) else number
