"""Finds the most frequent keys of a keyed operator at negligible cost, by sampling its records.

In each epoch the first records are all sampled, then fewer and fewer: on average every fourth, every sixteenth and so
on, up to every :data:`_FEWEST`-th. An epoch of ten records is therefore covered as well as one of a million. The
distances between samples are random, because keys may occur in a regular sequence. A sample represents the records
since the previous sample. A batch without a sample costs one subtraction.

Samples decay: their weight is halved after each :data:`_HALF_LIFE`. They live in the worker and are never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random
from time import monotonic
from typing import Any, Final, NamedTuple

from tidemill.metrics.frequent_keys import FrequentKeys
from tidemill.state.codecs.plain_values import as_plain, json_text

__all__ = ["KeySample", "KeySampler"]

#: The lowest sampling rate, reached in long epochs: one of this many records, on average. Each step before that samples
#: a fourth as often as the previous step.
_FEWEST: Final = 1024
_FEWER: Final = 4
#: Samples per step. Five steps take 40 samples, about 10 us per epoch.
_STEP: Final = 8
#: Seconds after which the weight of records is halved.
_HALF_LIFE: Final = 30.0
#: Seconds between two reports: one costs about as much as 200 samples.
_INTERVAL: Final = 2.0
#: The number of keys in a report, and the maximum number of characters of a key's JSON.
_TOP: Final = 10
_LONGEST: Final = 256


class KeySample(NamedTuple):
    """The recently most frequent keys of a subtask, as JSON text, with the number of records that each represents.

    ``records`` is the number of records that all samples represent, ``sampled`` the number of samples. Older samples
    have less weight.
    """

    records: float
    sampled: float
    keys: tuple[tuple[str, float], ...]


class KeySampler:
    """Samples the keys of one subtask, from epoch to epoch."""

    __slots__ = ("_ahead", "_clock", "_faded", "_frequent", "_gap", "_left", "_random", "_reported", "_stride")

    def __init__(self, clock: Callable[[], float] = monotonic, seed: int | None = None) -> None:
        # configuration
        self._clock = clock
        self._random = Random(seed).random  # a separate generator: the program's own sequence must not change
        # transient
        self._frequent = FrequentKeys()
        self._faded = clock()
        self._reported: float | None = None
        #: The number of records before the next sample, and the number of records that it represents.
        self._ahead = 0
        self._gap = 1
        self._stride = 1
        self._left = _STEP

    def begin_epoch(self) -> None:
        """Return to the highest sampling rate, and let existing samples decay."""
        self._stride = 1
        self._left = _STEP
        halvings = int((self._clock() - self._faded) / _HALF_LIFE)
        if halvings > 0:
            self._faded += halvings * _HALF_LIFE
            self._frequent.halve(halvings)

    def take(self, keys: Sequence[Any]) -> None:
        """Sample the keys of a batch."""
        ahead = self._ahead - len(keys)
        if ahead < 0:
            ahead = self._sample(keys)
        self._ahead = ahead

    def _sample(self, keys: Sequence[Any]) -> int:
        add, random = self._frequent.add, self._random
        position, gap, stride, left = self._ahead, self._gap, self._stride, self._left
        until = len(keys)
        while position < until:
            add(keys[position], gap)
            left -= 1
            if not left and stride < _FEWEST:
                stride *= _FEWER
                left = _STEP
            gap = 1 + int(random() * (2 * stride - 1))  # on average: stride
            position += gap
        self._gap, self._stride, self._left = gap, stride, left
        return position - until

    def report(self, *, last: bool = False) -> KeySample | None:
        """The current sample if a report is due, otherwise None. The ``last`` report is always due."""
        now = self._clock()
        if not last and self._reported is not None and now - self._reported < _INTERVAL:
            return None
        self._reported = now
        frequent = self._frequent
        top = tuple((_text(one.key), one.weight) for one in frequent.top(_TOP))
        return KeySample(frequent.total, frequent.times, top)


def _text(key: Any) -> str:
    """A key as JSON text. A long key is truncated, and a hash is added that distinguishes it from others."""
    try:
        text = json_text(as_plain(key)) or "null"
    except Exception:  # an exception in a class of the program must not fail the job
        text = json_text(type(key).__name__) or ""
    if len(text) <= _LONGEST:
        return text
    # Keys with the same prefix, such as URLs, must stay distinct: the driver identifies keys by this text.
    mark = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return json_text({"$truncated": f"{text[:_LONGEST]}... ({mark})"}) or ""
