"""The failures of a job: one entry per failure, or per record that it fails at repeatedly."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from tidemill.errors import FailureSite

__all__ = ["ExceptionEntry"]


@dataclass(frozen=True)
class ExceptionEntry:
    """One entry of a job's exception history. Times are in milliseconds since 1970.

    ``times`` is greater than 1 for consecutive failures at the same record: ``timestamp`` is then that of the first
    failure, and ``last_timestamp`` and ``message`` are those of the last. ``exception`` is the exception in one line.
    ``site`` is where it was raised, as far as that is known. ``followed_by`` is how the job reacted.

    >>> site = FailureSite(operator="parse", uid="parse", subtask=1, epoch=7, record="'x'")
    >>> entry = ExceptionEntry(0, 2000, 3, "ValueError: no number", "Traceback ...", site, "started again")
    >>> print(entry.story())  # doctest: +NORMALIZE_WHITESPACE
    ValueError: no number in operator 'parse' (uid parse), subtask 2, epoch 7: failed 3 times at the same record 'x',
    from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:02.000Z; started again
    """

    timestamp: int
    last_timestamp: int
    times: int
    exception: str
    message: str
    site: FailureSite
    followed_by: str = ""

    def story(self) -> str:
        """The entry in one sentence."""
        record = "" if self.site.record is None else f"record {self.site.record}"
        key = "" if self.site.key is None else f"key {self.site.key}"
        what = ", ".join(filter(None, (record, key)))
        if self.times > 1:
            told = f"failed {self.times} times at the same {what}, from {_iso(self.timestamp)} to "
            told += _iso(self.last_timestamp)
        else:
            told = f"failed at {what}, {_iso(self.timestamp)}" if what else f"failed at {_iso(self.timestamp)}"
        where = self.site.where()
        then = f"; {self.followed_by}" if self.followed_by else ""
        return f"{self.exception}{' in ' + where if where else ''}: {told}{then}"


def _iso(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
