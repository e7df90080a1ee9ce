"""Options of database connections and sinks, with PyFlink's builders. Passwords are never displayed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.connectors.jdbc.url import parse_url
from tidemill.errors import ConfigurationError

__all__ = ["JdbcConnectionOptions", "JdbcExactlyOnceOptions", "JdbcExecutionOptions"]

_Options = TypeVar("_Options")


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """The URL and credentials of a database; created with :class:`JdbcConnectionOptionsBuilder`.

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
    _timeout_seconds: int = 60

    def get_db_url(self) -> str:
        """Return the URL as it was set."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the name of the JDBC driver, which Tidemill does not use."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user name."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password, in clear text."""
        return self._password

    def get_connection_check_timeout_seconds(self) -> int:
        """Return the maximum time to establish a connection."""
        return self._timeout_seconds

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions(url={hide_password(self._url)!r}, user_name={self._user_name!r})"

    class JdbcConnectionOptionsBuilder:
        """Builds :class:`JdbcConnectionOptions`."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None
            self._timeout_seconds = 60

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL, such as ``jdbc:postgresql://host:port/database`` or ``jdbc:sqlite:/path/of/the/file``."""
            parse_url(url)
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Accepted and ignored: the URL determines the database, and no JDBC driver is loaded."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user name."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password; it is sent to the workers with the job, and is never displayed."""
            self._password = password
            return self

        def with_connection_check_timeout_seconds(
            self, connection_check_timeout_seconds: int
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the maximum time to establish a connection; 60 s by default, as in Flink."""
            self._timeout_seconds = _at_least(1, connection_check_timeout_seconds, "a timeout in seconds")
            return self

        def build(self) -> JdbcConnectionOptions:
            """Build the options."""
            if self._url is None:
                raise ConfigurationError("the database URL is missing: call with_url()")
            return JdbcConnectionOptions(
                self._url, self._driver_name, self._user_name, self._password, self._timeout_seconds
            )


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """The size and interval of batches, and the number of retries; the defaults are Flink's.

    >>> JdbcExecutionOptions.builder().with_batch_size(200).with_max_retries(5).build()
    JdbcExecutionOptions(batch_interval_ms=0, batch_size=200, max_retries=5)
    """

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Return the interval, in ms, after which an incomplete batch is written; 0: at the end of the epoch."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of records in a batch."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return the maximum number of retries of a batch."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the defaults: batches of 5000, no interval, and three retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Start building from the defaults."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Builds :class:`JdbcExecutionOptions`."""

        def __init__(self) -> None:
            self._size, self._interval_ms, self._max_retries = 5000, 0, 3

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of records after which a batch is written."""
            self._size = _at_least(1, size, "a batch size")
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set the interval after which an incomplete batch is written; 0 for no limit.

            It is checked when records arrive. All records are written at the end of an epoch in any case.
            """
            self._interval_ms = _at_least(0, interval_ms, "a batch interval")
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a batch is retried after a lost connection or a transient error of the database."""
            self._max_retries = _at_least(0, max_retries, "a number of retries")
            return self

        def build(self) -> JdbcExecutionOptions:
            """Build the options."""
            return JdbcExecutionOptions(self._interval_ms, self._size, self._max_retries)


@dataclass(frozen=True)
class JdbcExactlyOnceOptions:
    """Options for prepared transactions.

    >>> JdbcExactlyOnceOptions.builder().with_max_commit_attempts(5).build()
    JdbcExactlyOnceOptions(max_commit_attempts=5, timeout_sec=20, commit_table='tidemill_commits')
    """

    max_commit_attempts: int = 10
    timeout_sec: int = 20
    commit_table: str = "tidemill_commits"

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """Return the defaults: ten attempts, 20 s for a lock, and the table ``tidemill_commits``."""
        return JdbcExactlyOnceOptions()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """Start building from the defaults."""
        return JdbcExactlyOnceOptions.Builder()

    class Builder:
        """Builds :class:`JdbcExactlyOnceOptions`."""

        def __init__(self) -> None:
            self._attempts, self._seconds, self._table = 10, 20, "tidemill_commits"

        def with_max_commit_attempts(self, max_commit_attempts: int) -> JdbcExactlyOnceOptions.Builder:
            """Set how often a commit is tried while the server is unreachable, before the job fails and restarts."""
            self._attempts = _at_least(1, max_commit_attempts, "a number of attempts")
            return self

        def with_timeout_sec(self, timeout_sec: int) -> JdbcExactlyOnceOptions.Builder:
            """Set how long a writer waits for a row that another transaction has locked, before the job fails."""
            self._seconds = _at_least(1, timeout_sec, "a timeout in seconds")
            return self

        def with_commit_table(self, commit_table: str) -> JdbcExactlyOnceOptions.Builder:
            """Set the table that records committed transactions; created when the job starts, if it does not exist."""
            self._table = commit_table
            return self

        def with_transaction_per_connection(self, transaction_per_connection: bool) -> JdbcExactlyOnceOptions.Builder:
            """Accepted and ignored: a PostgreSQL connection has one transaction, and each writer its own connection."""
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """Build the options."""
            return JdbcExactlyOnceOptions(self._attempts, self._seconds, self._table)


def built(options: Any, kind: type[_Options], call: str) -> _Options:
    """Return the options. Raises an error for another type, such as a builder without a call of ``build()``."""
    if not isinstance(options, kind):
        raise ConfigurationError(
            f"{call} requires {kind.__name__}, not {type(options).__qualname__}: is build() missing?"
        )
    return options


def _at_least(least: int, value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{what} must be an integer, not {type(value).__name__} {value!r}")
    if value < least:
        raise ConfigurationError(f"{what} of {value} is too small: it must be at least {least}")
    return value
