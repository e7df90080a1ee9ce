"""How many records an epoch may have, so that it takes about as long as it should."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions

log = logging.getLogger(__name__)

#: Records of each source in the first epoch, when nothing is known of what they cost.
FIRST_RECORDS: Final = 100
#: An epoch has at most so many times the records of the one before it.
MOST_GROWTH: Final = 16.0
#: Epochs are to take this part of the most that they may: records differ in what they cost.
_AIM: Final = 0.5


@dataclass(frozen=True)
class _Fixed:
    """The assumption that epochs take ``seconds`` without any record, and ``cost`` seconds more for each record."""

    seconds: float
    cost: float

    def holds(self, records: float, seconds: float) -> bool:
        """Whether an epoch took about what it should have taken."""
        expected = self.seconds + self.cost * records
        return 0.6 * expected <= seconds <= 2 * expected


class EpochLimit:
    """Says how many records of each source the next epoch may have, from what the last ones took.

    1. The first epoch is small. Each one after it is larger in proportion to the time that is left, up to 16 times:
       time that passes without regard to records makes it smaller than it might be, never larger.
    2. An epoch that took too long is followed by a smaller one, in proportion.
    3. An epoch with less input than it might have had does not lower the limit, unless it took too long.
    4. Smaller epochs do not help where the time has little to do with records (a sink whose commit takes long): they
       only make the job slower. So when epochs were made smaller down to a quarter, one that is smaller still shows how
       much is fixed. If that is more than half of it, epochs are to take twice the fixed time from then on, for as long
       as what they take agrees with it.

    An epoch has one record at least, and ``max_records`` at most. Without ``max_seconds`` it may always have these.

    >>> limit = EpochLimit(max_records=1_000_000, max_seconds=10.0)
    >>> for seconds in (1.0, 5.0, 5.0):
    ...     print(limit.records)
    ...     limit.committed(records=limit.records, sources=1, seconds=seconds)
    100
    500
    500
    """

    def __init__(self, max_records: int, max_seconds: float | None) -> None:
        # configuration
        self.max_records = max_records
        self._aim = None if max_seconds is None else _AIM * max_seconds
        # transient
        self._limit = float(max_records if max_seconds is None else min(FIRST_RECORDS, max_records))
        self._fixed: _Fixed | None = None
        #: The records of the epoch since which they are being made smaller.
        self._smaller_since: float | None = None
        #: The records and seconds of the epoch before one that is to show what is fixed.
        self._before_probe: tuple[float, float] | None = None

    @classmethod
    def of(cls, configuration: Configuration, *, batch: bool) -> EpochLimit:
        """The limit of a job; a job in BATCH mode is one epoch, however long that takes."""
        duration = configuration.get(ExecutionOptions.EPOCH_MAX_DURATION).total_seconds()
        return cls(configuration.get(ExecutionOptions.EPOCH_MAX_RECORDS), None if batch or not duration else duration)

    @property
    def records(self) -> int:
        """How many records of each source the next epoch may have."""
        return max(1, round(self._limit))

    def committed(self, *, records: int, sources: int, seconds: float) -> None:
        """An epoch with so many records, of so many sources that had any, took so long."""
        if self._aim is None or not records:
            return
        each, seconds = records / max(1, sources), max(seconds, 1e-6)
        if self._before_probe is not None:
            self._learn(*self._before_probe, each, seconds)
            self._before_probe = None
        elif self._fixed is not None and not self._fixed.holds(each, seconds):
            self._fixed = None
        aim, fixed, cost = self._aim, 0.0, 0.0
        if self._fixed is not None:
            fixed, cost = self._fixed.seconds, self._fixed.cost
            aim = max(aim, 2 * fixed)
        by_records = max(seconds - fixed, cost * each / 2, 1e-6)
        in_proportion = each * min(MOST_GROWTH, (aim - fixed) / by_records)
        if seconds > aim:
            self._make_smaller(each, seconds, in_proportion)
            return
        self._smaller_since = None
        self._set(max(self._limit, in_proportion) if each < 0.9 * self.records else in_proportion)

    def failed(self, *, seconds: float) -> None:
        """An epoch failed after so long; where that is because it took too long, the next try takes less."""
        if self._aim is not None and seconds > self._aim / _AIM:
            self._set(self._limit * self._aim / seconds)

    def _set(self, limit: float) -> None:
        before, self._limit = self.records, min(float(self.max_records), max(1.0, limit))
        if self.records < before / 2:
            log.info("the next epoch has at most %d records of each source, %d before", self.records, before)

    def _make_smaller(self, each: float, seconds: float, limit: float) -> None:
        if self._smaller_since is None:
            self._smaller_since = each
        elif self._fixed is None and each <= self._smaller_since / 4:
            self._before_probe, self._smaller_since, limit = (each, seconds), None, each / 4
        self._set(limit)

    def _learn(self, more: float, took: float, each: float, seconds: float) -> None:
        """Two epochs of different size show what of their time is fixed."""
        if each < more and seconds > took / 2:
            cost = max(0.0, took - seconds) / (more - each)
            self._fixed = _Fixed(seconds - cost * each, cost)
            log.info("epochs take about %.1f s whatever they read", self._fixed.seconds)
