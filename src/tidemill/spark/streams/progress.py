"""The lag of a streaming query behind its sources, from the progress that Spark reports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidemill.runtime.start.spark_positions import SourceNumbers

#: The seconds between two checks. Each check calls the JVM twice.
_INTERVAL: Final = 1.0


class SourceLag:
    """Checks the progress of a query periodically, and reports the number of pending records by source uid."""

    def __init__(self, query: Any, numbers: SourceNumbers, tell: Callable[[Mapping[str, int]], None]) -> None:
        self._query = query
        self._numbers = numbers
        self._tell = tell
        self._looked = time.monotonic()

    def look(self) -> None:
        """Check the progress, unless the last check was less than an interval ago."""
        now = time.monotonic()
        if now - self._looked < _INTERVAL:
            return
        self._looked = now
        # Not PySpark's lastProgress, which calls the JVM for each field of each source.
        progress = self._query._jsq.lastProgress()
        if progress is not None:
            self._tell(pending_records(json.loads(progress.json()), self._numbers))


def pending_records(progress: Mapping[str, Any], numbers: SourceNumbers) -> dict[str, int]:
    """Return the number of pending records of sources whose offsets count records by partition, as Kafka's do.

    >>> ends, latest = {"orders": {"0": 7, "1": 3}}, {"orders": {"0": 9, "1": 3, "2": 5}}
    >>> pending_records({"sources": [{"endOffset": ends, "latestOffset": latest}]}, {"read": [[0, 0, "kafka"]]})
    {'read': 7}
    """
    sources = progress.get("sources", [])
    found: dict[str, int] = {}
    for uid, streams in numbers.items():
        waiting = [_waiting(sources[index]) for _, index, _ in streams if index < len(sources)]
        if waiting and None not in waiting:
            found[uid] = sum(count for count in waiting if count is not None)
    return found


def _waiting(source: Mapping[str, Any]) -> int | None:
    ends, latest = source.get("endOffset"), source.get("latestOffset")
    if not isinstance(ends, dict) or not isinstance(latest, dict):
        return None
    total = 0
    for topic, partitions in latest.items():
        read = ends.get(topic, {})
        if not isinstance(partitions, dict) or not isinstance(read, dict):
            return None
        total += sum(max(0, offset - read.get(partition, 0)) for partition, offset in partitions.items())
    return total
