"""Where a database is, and how it is written to; PyFlink's builders. Passwords never show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidemill.connectors.jdbc.url import hide_password, parse_url
from tidemill.errors import ConfigurationError

__all__ = ["JdbcConnectionOptions", "JdbcExactlyOnceOptions", "JdbcExecutionOptions"]

_Options = TypeVar("_Options")


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """The database and who connects; made by :class:`JdbcConnectionOptionsBuilder`.

    >>> options = (
    ...     JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    ...     .with_url("jdbc:postgresql://localhost:5432/shop")
    ...     .with_user_name("tidemill")
    ...     .with_password("secret")
    ...     .build()
    ... )
    >>> options
    JdbcConnectionOptions(url='jdbc:postgresql://localhost:5432/shop', user_name='tidemill')
    """

    _url: str
    _driver_name: str | None = None
    _user_name: str | None = None
    _password: str | None = field(default=None, repr=False)
    _timeout_seconds: int = 30

    def get_db_url(self) -> str:
        """The address, as it was given."""
        return self._url

    def get_driver_name(self) -> str | None:
        """The driver's name, which Tidemill does not need."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Who connects."""
        return self._user_name

    def get_password(self) -> str | None:
        """The password, in clear text."""
        return self._password

    def get_connection_check_timeout_seconds(self) -> int:
        """How long a server may take to answer when a connection is made."""
        return self._timeout_seconds

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions(url={hide_password(self._url)!r}, user_name={self._user_name!r})"

    class JdbcConnectionOptionsBuilder:
        """Collects the settings of a :class:`JdbcConnectionOptions`."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None
            self._timeout_seconds = 30

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """``jdbc:postgresql://host:port/database`` or ``jdbc:sqlite:/path/of/the/file``."""
            parse_url(url)
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Accepted: the address says which database it is, and no JDBC driver is loaded."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Who connects."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The password; it goes to the workers with the job, and is shown nowhere."""
            self._password = password
            return self

        def with_connection_check_timeout_seconds(
            self, connection_check_timeout_seconds: int
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """How long a server may take to answer when a connection is made; 30 s by default."""
            self._timeout_seconds = _at_least(1, connection_check_timeout_seconds, "a timeout in seconds")
            return self

        def build(self) -> JdbcConnectionOptions:
            """The options."""
            if self._url is None:
                raise ConfigurationError("a database needs an address: call with_url()")
            return JdbcConnectionOptions(
                self._url, self._driver_name, self._user_name, self._password, self._timeout_seconds
            )


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """How many records go to the database at once, and how often a batch is tried again; Flink's defaults.

    >>> JdbcExecutionOptions.builder().with_batch_size(200).with_max_retries(5).build()
    JdbcExecutionOptions(batch_interval_ms=0, batch_size=200, max_retries=5)
    """

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """After how many ms a batch that is not full is written; 0 for not before the end of the epoch."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """How many records are written at once."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """How often a batch is tried again."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Batches of 5000, written at the end of an epoch at the latest, tried again three times."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Start with the defaults."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Collects the settings of a :class:`JdbcExecutionOptions`."""

        def __init__(self) -> None:
            self._size, self._interval_ms, self._max_retries = 5000, 0, 3

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Write when so many records have come."""
            self._size = _at_least(1, size, "a batch size")
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Write when a record has waited so long, looked at whenever records come; 0 for no limit.

            The end of an epoch writes everything in any case.
            """
            self._interval_ms = _at_least(0, interval_ms, "a batch interval")
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Try a batch again so many times when the connection is lost or the database asks for it."""
            self._max_retries = _at_least(0, max_retries, "a number of retries")
            return self

        def build(self) -> JdbcExecutionOptions:
            """The options."""
            return JdbcExecutionOptions(self._interval_ms, self._size, self._max_retries)


@dataclass(frozen=True)
class JdbcExactlyOnceOptions:
    """How transactions that are prepared are dealt with.

    >>> JdbcExactlyOnceOptions.builder().with_max_commit_attempts(5).build()
    JdbcExactlyOnceOptions(max_commit_attempts=5, timeout_sec=20, commit_table='tidemill_commits')
    """

    max_commit_attempts: int = 10
    timeout_sec: int = 20
    commit_table: str = "tidemill_commits"

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """Ten attempts, 20 s for a lock, and the table ``tidemill_commits``."""
        return JdbcExactlyOnceOptions()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """Start with the defaults."""
        return JdbcExactlyOnceOptions.Builder()

    class Builder:
        """Collects the settings of a :class:`JdbcExactlyOnceOptions`."""

        def __init__(self) -> None:
            self._attempts, self._seconds, self._table = 10, 20, "tidemill_commits"

        def with_max_commit_attempts(self, max_commit_attempts: int) -> JdbcExactlyOnceOptions.Builder:
            """How often a commit is tried while the server cannot be reached, before the job fails and starts again."""
            self._attempts = _at_least(1, max_commit_attempts, "a number of attempts")
            return self

        def with_timeout_sec(self, timeout_sec: int) -> JdbcExactlyOnceOptions.Builder:
            """How long a writer waits for a row that another transaction has locked, before the job fails."""
            self._seconds = _at_least(1, timeout_sec, "a timeout in seconds")
            return self

        def with_commit_table(self, commit_table: str) -> JdbcExactlyOnceOptions.Builder:
            """The table that tells what was committed; created when the job starts, if it is missing."""
            self._table = commit_table
            return self

        def with_transaction_per_connection(self, transaction_per_connection: bool) -> JdbcExactlyOnceOptions.Builder:
            """Accepted: a connection of PostgreSQL has one transaction at a time, and a writer has its own."""
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """The options."""
            return JdbcExactlyOnceOptions(self._attempts, self._seconds, self._table)


def built(options: Any, kind: type[_Options], call: str) -> _Options:
    """The options, if they are options: a builder on which ``build()`` was forgotten is told so."""
    if not isinstance(options, kind):
        raise ConfigurationError(f"{call} takes {kind.__name__}, not {type(options).__qualname__}: is build() missing?")
    return options


def _at_least(least: int, value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{what} is a whole number, not {type(value).__name__} {value!r}")
    if value < least:
        raise ConfigurationError(f"{what} of {value} is too small: it is at least {least}")
    return value
