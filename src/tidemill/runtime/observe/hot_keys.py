"""The hottest keys of a job's operators, put together by the driver from what subtasks report.

Keys are users' data: they are neither logged nor stored, and no metric. Who asks for them must see to it that the one
who gets to know them may.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from tidemill.common.reports.hot_keys import HotKey, HotKeys
from tidemill.runtime.observe.key_sampler import KeySample

__all__ = ["JobHotKeys"]

#: Keys of an operator that are told.
_TOP: Final = 10


class JobHotKeys:
    """What is known of the keys of some operators. The job's thread reports; any may ask."""

    def __init__(self, operators: Collection[str]) -> None:
        """``operators`` are the uids of those that report."""
        self._lock = threading.Lock()
        self._samples: dict[str, dict[int, KeySample]] = {uid: {} for uid in operators}

    def take(self, uid: str, subtask: int, sample: KeySample) -> None:
        """What a subtask says replaces what it said before."""
        with self._lock:
            self._samples.setdefault(uid, {})[subtask] = sample

    def forget(self, operators: Collection[str], width: int) -> None:
        """These operators have only so many subtasks now."""
        with self._lock:
            for uid in operators:
                for subtask in [one for one in self._samples.get(uid, ()) if one >= width]:
                    del self._samples[uid][subtask]

    def of(self, uid: str) -> HotKeys | None:
        """The hottest keys of an operator; None for one that does not report."""
        with self._lock:
            if uid not in self._samples:
                return None
            samples = list(self._samples[uid].values())
        total = sum(sample.records for sample in samples)
        weights: dict[str, float] = defaultdict(float)
        for sample in samples:
            for text, weight in sample.keys:
                weights[text] += weight  # of several subtasks only where the parallelism has just changed
        top = sorted(weights.items(), key=lambda one: -one[1])[:_TOP]
        keys = tuple(_hot_key(text, weight, weight / total) for text, weight in top)
        return HotKeys(keys, round(sum(sample.sampled for sample in samples)))

    def hottest_share(self, uid: str) -> float | None:
        """The share of the hottest key of an operator; None if nothing is known."""
        found = self.of(uid)
        return None if found is None or not found.sampled else found.hottest_share


def _hot_key(text: str, weight: float, share: float) -> HotKey:
    key: Any = json.loads(text)
    return HotKey(key, key if isinstance(key, str) else text, round(share, 4), round(weight))
