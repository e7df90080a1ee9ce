"""The hottest keys of a job's operators, combined by the driver from the reports of subtasks.

Keys are user data: they are never logged, stored or exported as metrics. The caller must make sure that the recipient
is authorized to see them.
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

#: The number of keys that are reported for an operator.
_TOP: Final = 10


class JobHotKeys:
    """The sampled keys of some operators. The job's thread writes; any thread may read."""

    def __init__(self, operators: Collection[str]) -> None:
        """``operators`` are the uids of the operators that report keys."""
        self._lock = threading.Lock()
        self._samples: dict[str, dict[int, KeySample]] = {uid: {} for uid in operators}

    def take(self, uid: str, subtask: int, sample: KeySample) -> None:
        """Store the sample of a subtask. It replaces the subtask's previous sample."""
        with self._lock:
            self._samples.setdefault(uid, {})[subtask] = sample

    def forget(self, operators: Collection[str], width: int) -> None:
        """Discard the samples of subtasks that no longer exist: these operators now have ``width`` subtasks."""
        with self._lock:
            for uid in operators:
                for subtask in [one for one in self._samples.get(uid, ()) if one >= width]:
                    del self._samples[uid][subtask]

    def of(self, uid: str) -> HotKeys | None:
        """The hottest keys of an operator; None if the operator does not report keys."""
        with self._lock:
            if uid not in self._samples:
                return None
            samples = list(self._samples[uid].values())
        total = sum(sample.records for sample in samples)
        weights: dict[str, float] = defaultdict(float)
        for sample in samples:
            for text, weight in sample.keys:
                weights[text] += weight  # a key is in several samples only right after the parallelism has changed
        top = sorted(weights.items(), key=lambda one: -one[1])[:_TOP]
        keys = tuple(_hot_key(text, weight, weight / total) for text, weight in top)
        return HotKeys(keys, round(sum(sample.sampled for sample in samples)))

    def hottest_share(self, uid: str) -> float | None:
        """The share of the hottest key of an operator; None if there are no samples."""
        found = self.of(uid)
        return None if found is None or not found.sampled else found.hottest_share


def _hot_key(text: str, weight: float, share: float) -> HotKey:
    key: Any = json.loads(text)
    return HotKey(key, key if isinstance(key, str) else text, round(share, 4), round(weight))
