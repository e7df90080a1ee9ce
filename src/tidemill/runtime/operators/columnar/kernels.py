"""Running and final values of an aggregate by group, equal to those of a loop over the rows.

Floating-point sums depend on the order of additions, so values are added in the order of the rows, as the loop does it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidemill.datastream.functions.built_in import AggregateKind
from tidemill.runtime.operators.columnar.groups import Groups

#: Groups with more rows are processed one by one, the others all together, by the position of the row in its group.
_LARGE: Final = 32
#: Sums of absolute values below this fit 64 bits, although they are computed as floating-point numbers.
_FITS: Final = 2.0**62

_UFUNCS: Final = {
    AggregateKind.SUM: np.add,
    AggregateKind.MIN: np.minimum,
    AggregateKind.MIN_BY: np.minimum,
    AggregateKind.MAX: np.maximum,
    AggregateKind.MAX_BY: np.maximum,
}


def is_exact(kind: AggregateKind, values: np.ndarray, current: np.ndarray) -> bool:
    """Whether the kernels give what a loop over Python numbers gives."""
    if kind is AggregateKind.SUM:
        if values.dtype.kind != "i":
            return True
        return bool(np.abs(values.astype(np.float64)).sum() + np.abs(current.astype(np.float64)).max(initial=0) < _FITS)
    if values.dtype.kind == "i":
        return True
    # A comparison with NaN is false, and -0.0 equals 0.0: which of them is kept depends on the order.
    return not any(
        bool(np.isnan(part).any()) or bool((np.signbit(part) & (part == 0)).any()) for part in (values, current)
    )


class Sorted:
    """Rows sorted by group, each group in the order of its rows."""

    __slots__ = ("counts", "order", "starts")

    def __init__(self, codes: np.ndarray, groups: int) -> None:
        self.order: np.ndarray = np.argsort(codes, kind="stable")
        self.counts: np.ndarray = np.bincount(codes, minlength=groups)
        self.starts: np.ndarray = np.cumsum(self.counts) - self.counts

    def running(self, kind: AggregateKind, values: np.ndarray, current: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Return the value of each row's group after that row, in sorted order.

        ``current`` is the value of each group before the batch, if ``present``.
        """
        combine = _UFUNCS[kind]
        found: np.ndarray = values[self.order]
        seeds = self.starts[present]
        found[seeds] = combine(current[present], found[seeds])
        small = self.counts <= _LARGE
        starts, counts = self.starts[small], self.counts[small]
        for place in range(1, int(counts.max(initial=0))):
            rows = starts[counts > place] + place
            found[rows] = combine(found[rows - 1], found[rows])
        for group in np.flatnonzero(~small).tolist():
            start = self.starts[group]
            part = found[start : start + self.counts[group]]
            part[:] = combine.accumulate(part)
        return found

    def in_order(self, found: np.ndarray) -> np.ndarray:
        """Return values in sorted order as values in the order of the rows."""
        placed = np.empty_like(found)
        placed[self.order] = found
        return placed

    @property
    def lasts(self) -> np.ndarray:
        """The last row of each group, in sorted order."""
        ends: np.ndarray = self.starts + self.counts - 1
        return ends


def final(
    kind: AggregateKind, groups: Groups, values: np.ndarray, current: np.ndarray, present: np.ndarray
) -> np.ndarray:
    """Return the value of each group after all rows. ``current`` is its value before the batch, if ``present``."""
    codes = groups.codes
    found = np.where(present, current, values[groups.first])
    rest = np.ones(len(codes), bool)
    rest[groups.first[~present]] = False
    _UFUNCS[kind].at(found, codes[rest], values[rest])
    return found
