"""The positions of a query's sources while it runs: the line of each source in an entry of Spark's offset log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tidemill.checkpoint.spark_logs import HEADER_LINES, NO_OFFSET
from tidemill.connectors.position_tracker import PositionTracker
from tidemill.errors import ConnectorError, JobExecutionError
from tidemill.runtime.start.spark_positions import SourceNumbers

__all__ = ["QueryPositions"]

log = logging.getLogger(__name__)


class QueryPositions:
    """Passes the line of each source to its tracker. ``offsets`` is an entry of the log, as text."""

    def __init__(self, trackers: Mapping[str, PositionTracker], numbers: SourceNumbers) -> None:
        """``trackers`` are keyed by the uid of their source; not every source has one."""
        self._trackers = trackers
        self._lines = {uid: HEADER_LINES + numbers[uid][0][0] for uid in trackers}

    @contextmanager
    def named_loss(self) -> Iterator[None]:
        """Raise :class:`~tidemill.errors.LostInputError` if the query fails in this block because input was lost.

        The trackers are closed after the block.
        """
        try:
            yield
        except JobExecutionError:
            for tracker in self._trackers.values():
                with suppress(ConnectorError):
                    tracker.explain_failure()
            raise
        finally:
            for uid, tracker in self._trackers.items():
                try:
                    tracker.close()
                except Exception as error:
                    log.warning("the connections of the source with uid %r were not closed properly: %s", uid, error)

    def revised(self, offsets: str, stored: Mapping[str, Any]) -> str:
        """Return an entry that the query can resume from; ``stored`` is the part of the manifest that contains it.

        Raises :class:`~tidemill.errors.LostInputError` if input that a source must read no longer exists.
        """
        lines = offsets.split("\n")
        for uid, tracker in self._trackers.items():
            line = self._lines[uid]
            if lines[line] != NO_OFFSET:
                lines[line] = tracker.revised(lines[line], (stored.get("topics") or {}).get(uid, {}))
        return "\n".join(lines)

    def topics(self, offsets: str) -> dict[str, dict[str, str]]:
        """Return the ids of the topics that the sources have read, by source uid. They are stored with the entry."""
        lines = offsets.split("\n")
        read = {uid: None if lines[line] == NO_OFFSET else lines[line] for uid, line in self._lines.items()}
        return {uid: tracker.ids(read[uid]) for uid, tracker in self._trackers.items()}

    def committed(self, offsets: str, *, checkpoint: bool) -> None:
        """Notify trackers of a committed epoch that ends at this entry, and whether it is a checkpoint."""
        lines = offsets.split("\n")
        for uid, tracker in self._trackers.items():
            if lines[self._lines[uid]] != NO_OFFSET:
                tracker.committed(lines[self._lines[uid]], checkpoint=checkpoint)
