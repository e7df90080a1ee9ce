"""A source that generates records from sequence numbers, at a configurable rate."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.ranges import cut_range
from tidemill.connectors.sources import MadeRecords, Position, Split, SplitEnumerator, SplitSource
from tidemill.datastream.functions.state_descriptors import TypeSpec, resolve_type

__all__ = ["DataGeneratorSource", "GeneratorFunction", "RateLimiterStrategy"]

_BATCH: Final = 8192


class GeneratorFunction(abc.ABC):
    """Generates records from sequence numbers; a plain function of one number can be used instead."""

    def open(self) -> None:
        """Called in each worker before the first record of a split."""

    @abc.abstractmethod
    def map(self, value: int) -> Any:
        """Return the record with this number.

        It must be deterministic: otherwise the source is not replayable.
        """

    def close(self) -> None:
        """Called when a split has been read."""


class RateLimiterStrategy:
    """Limits the rate of records, over all subtasks."""

    def __init__(self, per_second: float | None = None, per_epoch: int | None = None) -> None:
        """Use :meth:`per_second`, :meth:`per_checkpoint` or :meth:`no_op` instead."""
        self.records_per_second = per_second
        self.records_per_epoch = per_epoch

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Limit the number of records per second. A job that was down or too slow does not catch up."""
        if not records_per_second > 0:
            raise ValueError(f"the rate must be greater than 0, not {records_per_second}")
        return RateLimiterStrategy(per_second=records_per_second)

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """Limit the number of records per epoch, which corresponds to Flink's checkpoint."""
        if records_per_checkpoint < 1:
            raise ValueError(f"an epoch must have at least 1 record, not {records_per_checkpoint}")
        return RateLimiterStrategy(per_epoch=records_per_checkpoint)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Do not limit the rate."""
        return RateLimiterStrategy()


class DataGeneratorSource(SplitSource):
    """Generates records in parallel by a function of their number, starting from 0; a position is the next number.

    ``count`` is the number of records; without it the source is unbounded.

    >>> source = DataGeneratorSource(lambda n: f"user-{n % 3}", 5)
    >>> splits = source.create_enumerator(None).next_splits(parallelism=2, max_records=100)
    >>> [list(batch.values) for split in splits for batch in source.read(split)]
    [['user-0', 'user-1', 'user-2'], ['user-0', 'user-1']]

    In a program: ``env.from_source(source, WatermarkStrategy.no_watermarks(), "users")``.
    """

    replayable = True

    def __init__(
        self,
        generator_function: GeneratorFunction | Callable[[int], Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeSpec = None,
    ) -> None:
        if not isinstance(generator_function, GeneratorFunction) and not callable(generator_function):
            raise TypeError(f"a GeneratorFunction is needed, not {type(generator_function).__name__}")
        if count is not None and count < 0:
            raise ValueError(f"count must not be negative: {count}")
        self.function = generator_function
        self.count = count
        self.rate = _rate_of(rate_limiter_strategy)
        self.bounded = count is not None
        self.type_info: TypeInformation | None = None if type_info is None else resolve_type(type_info)

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that begins at a number."""
        return _GeneratedEnumerator(0 if position is None else int(position), self.count, self.rate)

    def read(self, split: Split) -> Iterator[MadeRecords]:
        """Generate the records of one split."""
        low, high = split.payload
        function = self.function
        make: Callable[[int], Any] = function.map if isinstance(function, GeneratorFunction) else function
        if isinstance(function, GeneratorFunction):
            function.open()
        try:
            for start in range(low, high, _BATCH):
                yield MadeRecords(make(number) for number in range(start, min(start + _BATCH, high)))
        finally:
            if isinstance(function, GeneratorFunction):
                function.close()


def _rate_of(given: Any) -> RateLimiterStrategy:
    """Return the given strategy, or no limit. Flink's source expects a type in this place; the error explains that."""
    if given is None:
        return RateLimiterStrategy.no_op()
    if not isinstance(given, RateLimiterStrategy):
        raise TypeError(
            f"a RateLimiterStrategy is needed, not {type(given).__name__}; a type is given as type_info=..."
        )
    return given


class _GeneratedEnumerator(SplitEnumerator):
    def __init__(
        self, start: int, count: int | None, rate: RateLimiterStrategy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # configuration
        self._count = count
        self._rate = rate
        self._clock = clock
        # transient
        self._next = start
        self._last = clock()
        self._allowed = 0.0

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        start = self._next
        self._next += min(max(1, max_records), self._ready())
        if self._rate.records_per_second is not None:
            self._allowed -= self._next - start
        return [Split((low, high), high - low) for low, high in cut_range(start, self._next, parallelism)]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._count is not None and self._next >= self._count

    def available(self) -> bool:
        return self._ready() > 0

    def pending_records(self) -> int | None:
        return None if self._count is None else max(0, self._count - self._next)

    def _ready(self) -> int:
        """Return the number of records that may be generated now."""
        left = (1 << 62) if self._count is None else max(0, self._count - self._next)
        if self._rate.records_per_epoch is not None:
            left = min(left, self._rate.records_per_epoch)
        rate = self._rate.records_per_second
        if rate is not None:
            now = self._clock()
            # Records of past seconds are not made up for: otherwise a restarted job would generate a burst of them.
            self._allowed = min(self._allowed + (now - self._last) * rate, max(rate, 1.0))
            self._last = now
            left = min(left, int(self._allowed))
        return left
