"""Watermark strategies: how timestamps and watermarks are assigned to a stream."""

from __future__ import annotations

import datetime as dt
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from tidemill.common.time import Duration, Length, as_millis
from tidemill.common.watermark_generators import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    Clock,
    NoWatermarksGenerator,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarksWithIdleness,
)

__all__ = [
    "AscendingTimestampsWatermarks",
    "AssignerWithPeriodicWatermarksWrapper",
    "BoundedOutOfOrdernessWatermarks",
    "Duration",
    "NoWatermarksGenerator",
    "TimestampAssigner",
    "TimestampColumn",
    "Watermark",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "WatermarksWithIdleness",
]

Supplier = Callable[..., WatermarkGenerator]

#: Milliseconds per unit, as a fraction: numerator and denominator.
UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
MILLIS_PER_DAY: Final = 86_400_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


class TimestampAssigner(ABC):
    """Extracts the event timestamp of a record.

    >>> class OfPair(TimestampAssigner):
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> OfPair().extract_timestamp(("a", 7), -1)
    7
    """

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The timestamp of ``value`` in milliseconds since the epoch.

        ``record_timestamp`` is the timestamp that the record already has; it is negative if it has none.
        """


@dataclass(frozen=True)
class TimestampColumn(TimestampAssigner):
    """Takes the timestamp from a field of each record: by name, or by the position in a tuple or row.

    A number counts ``unit``s since 1970. A date or a time without time zone is in UTC.

    >>> TimestampColumn("at", "s").extract_timestamp({"at": 2}, -1)
    2000
    """

    field: str | int
    unit: str = "ms"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"the unit of a timestamp column must be one of {', '.join(UNITS)}, not {self.unit!r}")
        if isinstance(self.field, bool) or not isinstance(self.field, (str, int)):
            raise TypeError(f"a timestamp column is a name or a position, not {self.field!r}")

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The timestamp of a record, in milliseconds."""
        by_name = isinstance(self.field, str) and (isinstance(value, tuple) or not hasattr(value, "__getitem__"))
        return self._millis(getattr(value, str(self.field)) if by_name else value[self.field])

    def _millis(self, time: Any) -> int:
        if isinstance(time, dt.datetime):
            aware = time if time.tzinfo is not None else time.replace(tzinfo=dt.timezone.utc)
            return (aware - _EPOCH) // _MILLISECOND
        if isinstance(time, dt.date):
            return (time - _EPOCH.date()).days * MILLIS_PER_DAY
        times, over = UNITS[self.unit]
        if isinstance(time, float):
            return math.trunc(time * times / over)
        if time is None or isinstance(time, str):
            raise TypeError(f"field {self.field!r} cannot be a timestamp: {time!r}")
        whole: int = int(time) * times // over
        return whole


@dataclass(frozen=True)
class _CallableAssigner(TimestampAssigner):
    function: Callable[[Any, int], int]

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.function(value, record_timestamp)


@dataclass(frozen=True)
class WatermarkAlignment:
    """Sources in one ``group`` wait for each other if their watermarks differ by more than ``max_drift_millis``."""

    group: str
    max_drift_millis: int
    update_interval_millis: int = 1000


@dataclass(frozen=True)
class WatermarkStrategy:
    """Creates the watermark generator and timestamp assigner of each source split.

    Immutable: the ``with_*`` methods return a new strategy with one setting changed.

    >>> from tidemill.common import Duration
    >>> strategy = (WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    ...     .with_timestamp_assigner(lambda value, _: value["ts"])
    ...     .with_idleness(Duration.of_minutes(1)))
    >>> strategy.get_timestamp_extractor()({"ts": 3}, -1)
    3
    """

    _supplier: Supplier
    _timestamp_assigner: TimestampAssigner | None = None
    _idle_timeout_millis: int | None = None
    _alignment: WatermarkAlignment | None = None

    # --- for users

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never decrease within a split."""
        return WatermarkStrategy(AscendingTimestampsWatermarks)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Length) -> WatermarkStrategy:
        """For records that are out of order by at most ``max_out_of_orderness``."""
        return WatermarkStrategy(_Bounded(as_millis(max_out_of_orderness)))

    @staticmethod
    def for_generator(generator_supplier: Supplier) -> WatermarkStrategy:
        """For user-defined generators.

        ``generator_supplier`` returns a new generator on each call. It is a function without parameters, a subclass of
        :class:`WatermarkGenerator`, or, as in Java, a function of a context, which is always None.
        """
        if not callable(generator_supplier):
            raise TypeError(
                f"for_generator needs a function that returns a WatermarkGenerator, not {generator_supplier!r}; "
                "write for_generator(lambda: MyGenerator())"
            )
        return WatermarkStrategy(generator_supplier)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For programs that use processing time only."""
        return WatermarkStrategy(NoWatermarksGenerator)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Sets the timestamp assigner: an object, or a function of (value, previous timestamp)."""
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, _timestamp_assigner=timestamp_assigner)
        extract = getattr(timestamp_assigner, "extract_timestamp", timestamp_assigner)
        if not callable(extract) or isinstance(timestamp_assigner, type):
            raise TypeError(f"not a TimestampAssigner or function: {timestamp_assigner!r}")
        return replace(self, _timestamp_assigner=_CallableAssigner(extract))

    def with_timestamp_column(self, field: str | int, unit: str = "ms") -> WatermarkStrategy:
        """Takes the timestamp of each record from a field: a name, or a position in a tuple or row.

        A number counts units since 1970: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``. Dates and times without a time zone
        are in UTC. Unlike with :meth:`with_timestamp_assigner`, records that are columns stay columns.

        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at", unit="s")
        >>> strategy.get_timestamp_extractor()({"at": 2}, -1)
        2000
        """
        return self.with_timestamp_assigner(TimestampColumn(field, unit))

    def with_idleness(self, idle_timeout: Length) -> WatermarkStrategy:
        """Marks a split idle after ``idle_timeout`` without records, so that it does not hold back event time."""
        millis = as_millis(idle_timeout)
        if millis <= 0:
            raise ValueError(f"the idle timeout must be positive: {millis} ms")
        return replace(self, _idle_timeout_millis=millis)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Length, update_interval: Length | None = None
    ) -> WatermarkStrategy:
        """Pauses sources of the same group that are ahead of the others by more than the allowed drift."""
        update = 1000 if update_interval is None else as_millis(update_interval)
        drift = as_millis(max_allowed_watermark_drift)
        return replace(self, _alignment=WatermarkAlignment(watermark_group, drift, update))

    # --- for the runtime

    def create_watermark_generator(self, clock: Clock | None = None) -> WatermarkGenerator:
        """Creates a generator, with idleness detection if configured. ``clock`` returns the processing time in ms."""
        generator = self._supplier(None) if _wants_context(self._supplier) else self._supplier()
        if not hasattr(generator, "on_event") or not hasattr(generator, "on_periodic_emit"):
            raise TypeError(
                f"the supplier passed to for_generator returned {generator!r}, which is not a WatermarkGenerator"
            )
        if self._idle_timeout_millis is None:
            return generator
        return WatermarksWithIdleness(generator, self._idle_timeout_millis, clock)

    def get_timestamp_extractor(self) -> Callable[[Any, int], int] | None:
        """The function of (value, previous timestamp) that returns the timestamp. None keeps the previous timestamp."""
        assigner = self._timestamp_assigner
        if assigner is None:
            return None
        return assigner.function if isinstance(assigner, _CallableAssigner) else assigner.extract_timestamp

    @property
    def timestamp_assigner(self) -> TimestampAssigner | None:
        return self._timestamp_assigner

    @property
    def reads_events(self) -> bool:
        """Whether the generators may read events, and not only timestamps: those that are not built in."""
        return not isinstance(self._supplier, _Bounded) and self._supplier not in _BUILT_IN

    @property
    def idle_timeout_millis(self) -> int | None:
        return self._idle_timeout_millis

    @property
    def alignment(self) -> WatermarkAlignment | None:
        return self._alignment


@dataclass(frozen=True)
class _Bounded:
    """Supplies bounded generators. A class rather than a lambda, so that strategies can be compared and pickled."""

    max_out_of_orderness_millis: int

    def __post_init__(self) -> None:
        BoundedOutOfOrdernessWatermarks(self.max_out_of_orderness_millis)  # reject a negative bound early

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.max_out_of_orderness_millis)


_BUILT_IN: Final = (AscendingTimestampsWatermarks, NoWatermarksGenerator)


class _PeriodicAssigner(Protocol):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int: ...
    def get_current_watermark(self) -> Watermark | int | None: ...


class AssignerWithPeriodicWatermarksWrapper:
    """Wraps an assigner of Flink's older interface.

    Such an assigner has the methods ``extract_timestamp(value, previous)`` and ``get_current_watermark()``, which is
    called periodically.
    """

    def __init__(self, assigner: _PeriodicAssigner) -> None:
        self._assigner = assigner

    def to_watermark_strategy(self) -> WatermarkStrategy:
        """Converts the assigner to an equivalent strategy.

        Timestamps and watermarks come from the same assigner object, so each subtask needs its own copy of the
        strategy.
        """
        strategy = WatermarkStrategy(_FromAssigner(self._assigner))
        return strategy.with_timestamp_assigner(_CallableAssigner(self._assigner.extract_timestamp))


@dataclass(frozen=True)
class _FromAssigner:
    assigner: _PeriodicAssigner

    def __call__(self) -> WatermarkGenerator:
        return _AssignerGenerator(self.assigner)


class _AssignerGenerator(NoWatermarksGenerator):
    def __init__(self, assigner: _PeriodicAssigner) -> None:
        self._assigner = assigner

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self._assigner))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # In place, because the same assigner extracts the timestamps.
        vars(self._assigner).update(state)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        mark = self._assigner.get_current_watermark()
        if mark is not None:
            output.emit_watermark(mark if isinstance(mark, Watermark) else Watermark(mark))


def _wants_context(supplier: Supplier) -> bool:
    try:
        parameters = inspect.signature(supplier).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters) == 1
