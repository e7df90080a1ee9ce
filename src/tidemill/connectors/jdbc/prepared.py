"""Names of prepared transactions, and the table that records which of them were committed."""

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

#: PostgreSQL's limit is 200 bytes, including the terminating zero.
_LONGEST: Final = 199
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]{1,24}")
#: Lineages and histories sort by age, so they must not be hashed.
_SORTED: Final = re.compile(r"[A-Za-z0-9_.~-]{1,40}")
_PREFIX: Final = "tidemill/"
_UNIQUE_VIOLATION, _DUPLICATE_TABLE, _NO_PRIVILEGE = "23505", "42P07", "42501"


@dataclass(frozen=True)
class TransactionName:
    """The name of a prepared transaction: ``tidemill/job/operator/history/lineage/epoch/subtask/attempt``.

    Job and operator are hashed if they are long or contain unusual characters; ``sink`` consists of both. The name
    contains only letters, digits and ``-_.~/``, so that it needs no quoting.
    """

    sink: str
    history: str
    lineage: str
    epoch: int
    subtask: int
    attempt: str

    @classmethod
    def of(cls, context: WriterContext) -> TransactionName:
        """Create the name for the transaction of one attempt in one epoch."""
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
        """Return the part of the name that all transactions of one sink of one job have in common.

        >>> TransactionName.sink_of("orders", "totals per customer")
        'orders/24f3645fef2fc6cc'
        """
        return f"{_plain(job_id)}/{_plain(operator_uid)}"

    @classmethod
    def parse(cls, text: str) -> TransactionName | None:
        """Parse a name, or return None if the transaction was not prepared by this connector."""
        parts = text.removeprefix(_PREFIX).split("/")
        if not text.startswith(_PREFIX) or len(parts) != 7 or not (parts[4].isdigit() and parts[5].isdigit()):
            return None
        job, operator, history, lineage, epoch, subtask, attempt = parts
        return cls(f"{job}/{operator}", history, lineage, int(epoch), int(subtask), attempt)

    def epoch_of(self) -> tuple[str, str, str, int]:
        """Return the sink, history, lineage and epoch that the transaction belongs to."""
        return self.sink, self.history, self.lineage, self.epoch

    def __str__(self) -> str:
        own = f"{self.history}/{self.lineage}/{self.epoch}/{self.subtask}/{self.attempt}"
        return f"{_PREFIX}{self.sink}/{own}"


def _plain(text: str) -> str:
    """Return a text for use in a name: unchanged, or as a hash."""
    if _PLAIN.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prepared_transactions(session: PostgresSession) -> list[TransactionName]:
    """Return the transactions of all jobs that are prepared in the session's database."""
    rows = session.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
    names = (TransactionName.parse(gid) for (gid,) in rows)
    return [name for name in names if name is not None]


class CommitTable:
    """A table with one row for each committed transaction, written by the transaction itself; old rows are deleted."""

    def __init__(self, table: str) -> None:
        self._table = quoted_name(table)

    def create(self, session: PostgresSession, database: PostgresDatabase) -> None:
        """Create the table if it does not exist.

        Raises :class:`ConfigurationError` with the statement to run if the user has no permission to create it.
        """
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
                    f"the exactly-once sink needs its own table in {database.shown}, but has no permission to create "
                    f"it ({database.words(error)}): as an administrator, run {sql}; and grant SELECT, INSERT and "
                    "DELETE on it"
                ) from None
            raise

    def note(self, session: PostgresSession, name: TransactionName) -> None:
        """Write the row of a transaction, within this transaction."""
        session.execute(
            f"INSERT INTO {self._table} (transaction, sink, history, lineage, epoch) "  # noqa: S608 - a quoted name
            "VALUES (%s, %s, %s, %s, %s)",
            (str(name), name.sink, name.history, name.lineage, name.epoch),
        )

    def tells_of(self, session: PostgresSession, name: TransactionName) -> bool:
        """Whether a transaction was committed: there is a row for it, or for a later one of the same history."""
        found = session.execute(
            f"SELECT 1 FROM {self._table} WHERE transaction = %s "  # noqa: S608 - a quoted name
            "OR (sink = %s AND history = %s AND (lineage, epoch) > (%s, %s)) LIMIT 1",
            (str(name), name.sink, name.history, name.lineage, name.epoch),
        )
        return bool(found)

    def forget_before(self, session: PostgresSession, last: TransactionName) -> None:
        """Delete the rows of epochs before that of ``last``, which is committed."""
        session.execute(
            f"DELETE FROM {self._table} "  # noqa: S608 - a quoted name
            "WHERE sink = %s AND history = %s AND (lineage, epoch) < (%s, %s)",
            (last.sink, last.history, last.lineage, last.epoch),
        )

    def insertion(self, name: TransactionName) -> str:
        """Return the statement with which a user can record a transaction as committed."""
        return (
            f"INSERT INTO {self._table} (transaction, sink, history, lineage, epoch) "  # noqa: S608 - for people
            f"VALUES ('{name}', '{name.sink}', '{name.history}', '{name.lineage}', {name.epoch})"
        )
