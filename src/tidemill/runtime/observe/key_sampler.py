"""Which keys come most often, found out at a cost that nobody notices: some records of a keyed operator are looked at.

In each epoch the first records are all taken, then fewer and fewer: on average every fourth, every sixteenth and so on,
up to every :data:`_FEWEST`-th. So an epoch of ten records is known as well as one of a million. The distances are drawn
by chance, since keys may come in turn; a sample stands for the records since the one before it. Batches in which
nothing is taken cost a subtraction.

What is known fades: it counts half as much after each :data:`_HALF_LIFE`. It lives in the worker and is never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from random import Random
from time import monotonic
from typing import Any, Final, NamedTuple

from tidemill.metrics.frequent_keys import FrequentKeys
from tidemill.state.codecs.plain_values import as_plain, json_text

__all__ = ["KeySample", "KeySampler"]

#: One of so many records is taken, on average, in long epochs; before that each step takes a fourth of the last one.
_FEWEST: Final = 1024
_FEWER: Final = 4
#: Samples of a step. With five steps that is 40, about 10 us of an epoch.
_STEP: Final = 8
#: Seconds after which records count half as much.
_HALF_LIFE: Final = 30.0
#: Seconds between two reports: one costs about as much as 200 samples.
_INTERVAL: Final = 2.0
#: Keys in a report, and characters of a key's JSON.
_TOP: Final = 10
_LONGEST: Final = 256


class KeySample(NamedTuple):
    """The most frequent keys of a subtask of late, as JSON text, with the records that each stands for.

    ``records`` is how many all samples stand for, ``sampled`` the number of samples; older ones count less.
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
        self._random = Random(seed).random  # not the program's own generator: that stays as it is
        # transient
        self._frequent = FrequentKeys()
        self._faded = clock()
        self._reported: float | None = None
        #: How many records come before the next sample, and how many that one stands for.
        self._ahead = 0
        self._gap = 1
        self._stride = 1
        self._left = _STEP

    def begin_epoch(self) -> None:
        """Look more closely again, and let what is known fade."""
        self._stride = 1
        self._left = _STEP
        halvings = int((self._clock() - self._faded) / _HALF_LIFE)
        if halvings > 0:
            self._faded += halvings * _HALF_LIFE
            self._frequent.halve(halvings)

    def take(self, keys: list[Any]) -> None:
        """Look at the keys of a batch."""
        ahead = self._ahead - len(keys)
        if ahead < 0:
            ahead = self._sample(keys)
        self._ahead = ahead

    def _sample(self, keys: list[Any]) -> int:
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
        """What is known now, if it is time to tell it; the ``last`` time it always is."""
        now = self._clock()
        if not last and self._reported is not None and now - self._reported < _INTERVAL:
            return None
        self._reported = now
        frequent = self._frequent
        top = tuple((_text(one.key), one.weight) for one in frequent.top(_TOP))
        return KeySample(frequent.total, frequent.times, top)


def _text(key: Any) -> str:
    """A key as JSON text; of a long one the beginning, and what tells it from others."""
    try:
        text = json_text(as_plain(key)) or "null"
    except Exception:  # whatever a class of the program's does: it must not fail the job
        text = json_text(type(key).__name__) or ""
    if len(text) <= _LONGEST:
        return text
    # Keys that begin alike, such as addresses of pages, must stay apart: the driver goes by this text.
    mark = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return json_text({"$truncated": f"{text[:_LONGEST]}... ({mark})"}) or ""
