"""Limits the number of records of an epoch, so that its duration stays close to the target."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions

log = logging.getLogger(__name__)

#: The number of records of each source in the first epoch, when their cost is unknown.
FIRST_RECORDS: Final = 100
#: The maximum growth: an epoch has at most this many times the records of the previous one.
MOST_GROWTH: Final = 16.0
#: The target duration of epochs, as a fraction of the maximum: the cost of records varies.
_AIM: Final = 0.5


@dataclass(frozen=True)
class _Fixed:
    """The model that an epoch takes ``seconds`` without any record, and ``cost`` seconds more for each record."""

    seconds: float
    cost: float

    def holds(self, records: float, seconds: float) -> bool:
        """Whether the duration of an epoch is close to the prediction."""
        expected = self.seconds + self.cost * records
        return 0.6 * expected <= seconds <= 2 * expected


class EpochLimit:
    """Determines how many records of each source the next epoch may have, from the durations of previous epochs.

    1. The first epoch is small. Each later epoch grows in proportion to the unused time, up to 16 times. Time that does
       not depend on the number of records makes an epoch smaller than it could be, never larger.
    2. An epoch that took too long is followed by a proportionally smaller one.
    3. An epoch with less input than allowed does not lower the limit, unless it took too long.
    4. Smaller epochs do not help if the duration hardly depends on the number of records (a sink with a slow commit):
       they only make the job slower. When epochs have been reduced to a quarter, an even smaller one therefore measures
       the fixed part of the duration. If that is more than half, the target becomes twice the fixed time, as long as
       the durations of epochs agree with it.

    An epoch has at least one record, and at most ``max_records``. Without ``max_seconds``, the limit is always
    ``max_records``.

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
        #: The number of records of the epoch since which epochs are being reduced.
        self._smaller_since: float | None = None
        #: The records and seconds of the epoch before the one that measures the fixed time.
        self._before_probe: tuple[float, float] | None = None

    @classmethod
    def of(cls, configuration: Configuration, *, batch: bool) -> EpochLimit:
        """The limit of a job. A job in BATCH mode is one epoch, without a limit on its duration."""
        duration = configuration.get(ExecutionOptions.EPOCH_MAX_DURATION).total_seconds()
        return cls(configuration.get(ExecutionOptions.EPOCH_MAX_RECORDS), None if batch or not duration else duration)

    @property
    def records(self) -> int:
        """The maximum number of records of each source in the next epoch."""
        return max(1, round(self._limit))

    def committed(self, *, records: int, sources: int, seconds: float) -> None:
        """Update the limit after an epoch: its records, the number of sources that had any, and its duration."""
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
        """Lower the limit after an epoch that failed, if it took longer than allowed."""
        if self._aim is not None and seconds > self._aim / _AIM:
            self._set(self._limit * self._aim / seconds)

    def _set(self, limit: float) -> None:
        before, self._limit = self.records, min(float(self.max_records), max(1.0, limit))
        if self.records < before / 2:
            log.info("the next epoch has at most %d records of each source, previously %d", self.records, before)

    def _make_smaller(self, each: float, seconds: float, limit: float) -> None:
        if self._smaller_since is None:
            self._smaller_since = each
        elif self._fixed is None and each <= self._smaller_since / 4:
            self._before_probe, self._smaller_since, limit = (each, seconds), None, each / 4
        self._set(limit)

    def _learn(self, more: float, took: float, each: float, seconds: float) -> None:
        """Estimate the fixed time from two epochs of different size."""
        if each < more and seconds > took / 2:
            cost = max(0.0, took - seconds) / (more - each)
            self._fixed = _Fixed(seconds - cost * each, cost)
            log.info("epochs take about %.1f s regardless of the number of records", self._fixed.seconds)
