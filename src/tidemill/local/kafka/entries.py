"""The positions of streaming sources in a manifest, in the form of an entry of Spark's offset log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tidemill.checkpoint.spark_logs import HEADER_LINES, NO_OFFSET, with_logs
from tidemill.runtime.start.spark_positions import SourceNumbers, arranged

__all__ = ["Entries"]

#: The name of Kafka's source in Spark.
_KIND: Final = "kafka"
#: The first lines of an entry: its version, and settings of the query. Spark uses its own for those that are missing.
_HEADER: Final = ("v1", '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}')


class Entries:
    """The entry after each epoch: a line for each source, which has its position."""

    def __init__(
        self,
        uids: Sequence[str],
        stored: Mapping[str, Any] | None,
        *,
        allow_non_restored: bool,
        elsewhere: Collection[str],
    ) -> None:
        """``stored`` is the part of the head manifest that has the positions, written by either engine.

        ``elsewhere`` are the uids of sources whose positions are now stored elsewhere. Raises
        :class:`~tidemill.errors.GraphError` if positions and sources do not match.
        """
        self._numbers: SourceNumbers = {uid: [[number, number, _KIND]] for number, uid in enumerate(uids)}
        self._header: Sequence[str] = _HEADER
        self.lines: dict[str, str | None] = dict.fromkeys(uids)
        self.topics: dict[str, dict[str, str]] = {}
        self._batch = -1
        self._last: tuple[str | None, ...] | None = None
        if stored is None:
            return
        offsets, _ = arranged(
            stored, self._numbers, allow_non_restored=allow_non_restored, elsewhere=frozenset(elsewhere)
        )
        found = offsets.split("\n")
        self._header, lines = found[:HEADER_LINES], found[HEADER_LINES:]
        self.lines = {uid: None if line == NO_OFFSET else line for uid, line in zip(uids, lines, strict=True)}
        self.topics = {uid: dict(ids) for uid, ids in (stored.get("topics") or {}).items() if uid in self._numbers}
        self._batch = int(stored["batch_id"])
        self._last = tuple(self.lines.values())

    def after(self, lines: Mapping[str, str], topics: Mapping[str, Mapping[str, str]], lineage: str) -> dict[str, Any]:
        """Return the positions for the manifest of an epoch that ends at these lines, by uid.

        ``topics`` are the ids of the topics that each source has read.
        """
        self.lines = {uid: lines.get(uid, line) for uid, line in self.lines.items()}
        now = tuple(self.lines.values())
        if now != self._last:
            self._batch, self._last = self._batch + 1, now
        text = "\n".join([*self._header, *(line or NO_OFFSET for line in now)])
        entry = {
            "batch_id": self._batch,
            "offsets": text,
            "lineage": lineage,
            "sources": self._numbers,
            "topics": {uid: dict(ids) for uid, ids in topics.items()},
        }
        return with_logs(entry, lineage, [])
