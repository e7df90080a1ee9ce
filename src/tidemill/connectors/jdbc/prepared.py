"""Names of prepared transactions, and the table that tells which of them were committed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from tidemill.connectors.jdbc.postgres import PostgresDatabase, PostgresSession
from tidemill.connectors.jdbc.sql import quoted_name
from tidemill.connectors.sinks import WriterContext
from tidemill.errors import ConfigurationError

__all__ = ["CommitTable", "TransactionName", "prepared_transactions"]

#: PostgreSQL's limit, in bytes, is 200 with the zero at the end.
_LONGEST: Final = 199
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]{1,24}")
#: Lineages and histories sort by age: they must stay what they are.
_SORTED: Final = re.compile(r"[A-Za-z0-9_.~-]{1,40}")
_PREFIX: Final = "tidemill/"
_UNIQUE_VIOLATION, _DUPLICATE_TABLE, _NO_PRIVILEGE = "23505", "42P07", "42501"


@dataclass(frozen=True)
class TransactionName:
    """What a prepared transaction is called: ``tidemill/job/operator/history/lineage/epoch/subtask/attempt``.

    Job and operator are hashed where they are long or hold unusual characters; ``sink`` is both of them. Made of
    letters, digits and ``-_.~/`` only, so that it needs no quoting.
    """

    sink: str
    history: str
    lineage: str
    epoch: int
    subtask: int
    attempt: str

    @classmethod
    def of(cls, context: WriterContext) -> TransactionName:
        """The name for what one attempt writes in one epoch."""
        name = cls(
            cls.sink_of(context.job_id, context.operator_uid),
            context.history or "0",
            context.lineage,
            context.epoch,
            context.subtask,
            _plain(context.attempt),
        )
        if not (_SORTED.fullmatch(name.history) and _SORTED.fullmatch(name.lineage)) or len(str(name)) > _LONGEST:
            raise ConfigurationError(f"'{name}' cannot be the name of a prepared transaction")
        return name

    @staticmethod
    def sink_of(job_id: str, operator_uid: str) -> str:
        """The part of the name that all transactions of one sink of one job have in common.

        >>> TransactionName.sink_of("orders", "totals per customer")
        'orders/24f3645fef2fc6cc'
        """
        return f"{_plain(job_id)}/{_plain(operator_uid)}"

    @classmethod
    def parse(cls, text: str) -> TransactionName | None:
        """The name that a text is, or None if it is not one of ours."""
        parts = text.removeprefix(_PREFIX).split("/")
        if not text.startswith(_PREFIX) or len(parts) != 7 or not (parts[4].isdigit() and parts[5].isdigit()):
            return None
        job, operator, history, lineage, epoch, subtask, attempt = parts
        return cls(f"{job}/{operator}", history, lineage, int(epoch), int(subtask), attempt)

    def epoch_of(self) -> tuple[str, str, str, int]:
        """Which run of which epoch of which sink it belongs to."""
        return self.sink, self.history, self.lineage, self.epoch

    def __str__(self) -> str:
        own = f"{self.history}/{self.lineage}/{self.epoch}/{self.subtask}/{self.attempt}"
        return f"{_PREFIX}{self.sink}/{own}"


def _plain(text: str) -> str:
    """A text as part of a name: itself, or a hash of it."""
    if _PLAIN.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prepared_transactions(session: PostgresSession) -> list[TransactionName]:
    """All that are prepared in the session's database, by whichever job."""
    rows = session.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
    names = (TransactionName.parse(gid) for (gid,) in rows)
    return [name for name in names if name is not None]


class CommitTable:
    """One row for each transaction that took effect, written by the transaction itself; older ones are deleted."""

    def __init__(self, table: str) -> None:
        self._table = quoted_name(table)

    def create(self, session: PostgresSession, database: PostgresDatabase) -> None:
        """Create the table if it is missing. Raises :class:`ConfigurationError` with the statement if it may not."""
        if session.execute("SELECT to_regclass(%s)", (self._table,)) != [(None,)]:
            return
        sql = (
            f"CREATE TABLE {self._table} (transaction text PRIMARY KEY, sink text NOT NULL, history text NOT NULL, "
            'lineage text COLLATE "C" NOT NULL, epoch bigint NOT NULL, at timestamptz NOT NULL DEFAULT now())'
        )
        try:
            session.execute(sql)
        except database.errors as error:
            state = getattr(error, "sqlstate", None)
            if state in (_UNIQUE_VIOLATION, _DUPLICATE_TABLE):
                return  # another job was faster
            if state == _NO_PRIVILEGE:
                raise ConfigurationError(
                    f"the exactly-once sink needs a table of its own in {database.shown}, and may not create it "
                    f"({database.words(error)}): have somebody run {sql}; and grant SELECT, INSERT and DELETE on it"
                ) from None
            raise

    def note(self, session: PostgresSession, name: TransactionName) -> None:
        """Write the row, in the transaction that it tells of."""
        session.execute(
            f"INSERT INTO {self._table} (transaction, sink, history, lineage, epoch) "  # noqa: S608 - a quoted name
            "VALUES (%s, %s, %s, %s, %s)",
            (str(name), name.sink, name.history, name.lineage, name.epoch),
        )

    def tells_of(self, session: PostgresSession, name: TransactionName) -> bool:
        """Whether a transaction took effect: it says so, or a later one of the same history does."""
        found = session.execute(
            f"SELECT 1 FROM {self._table} WHERE transaction = %s "  # noqa: S608 - a quoted name
            "OR (sink = %s AND history = %s AND (lineage, epoch) > (%s, %s)) LIMIT 1",
            (str(name), name.sink, name.history, name.lineage, name.epoch),
        )
        return bool(found)

    def forget_before(self, session: PostgresSession, last: TransactionName) -> None:
        """Delete the rows of earlier epochs than that of ``last``, which has taken effect."""
        session.execute(
            f"DELETE FROM {self._table} "  # noqa: S608 - a quoted name
            "WHERE sink = %s AND history = %s AND (lineage, epoch) < (%s, %s)",
            (last.sink, last.history, last.lineage, last.epoch),
        )

    def insertion(self, name: TransactionName) -> str:
        """The statement that has the table tell of a transaction, for people."""
        return (
            f"INSERT INTO {self._table} (transaction, sink, history, lineage, epoch) "  # noqa: S608 - for people
            f"VALUES ('{name}', '{name.sink}', '{name.history}', '{name.lineage}', {name.epoch})"
        )
