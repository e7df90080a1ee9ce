"""The contract between a streaming source and the component that tracks its position while a job runs."""

from __future__ import annotations

import abc
from collections.abc import Mapping

__all__ = ["PositionTracker"]


class PositionTracker(abc.ABC):
    """Tracks the position of one streaming source, which reads a single stream.

    An ``offset`` is the line of this source in an entry of Spark's offset log, whichever engine reads the source.
    """

    @abc.abstractmethod
    def revised(self, offset: str, ids: Mapping[str, str]) -> str:
        """Return the offset to resume from: the stored one, unless some of the input must be skipped.

        ``ids`` is the result of :meth:`ids` when the offset was stored. Raises
        :class:`~tidemill.errors.LostInputError` if input that must be read no longer exists.
        """

    @abc.abstractmethod
    def ids(self, offset: str | None) -> dict[str, str]:
        """Return the ids, by name, of the objects read up to an offset. An object that is recreated has a new id.

        ``offset`` is None if nothing has been read yet.
        """

    @abc.abstractmethod
    def committed(self, offset: str, *, checkpoint: bool) -> None:
        """Called when an epoch that ends at this offset is committed; ``checkpoint`` is true if it is a checkpoint."""

    @abc.abstractmethod
    def explain_failure(self) -> None:
        """Called when the query has failed: raise :class:`~tidemill.errors.LostInputError` if its input is lost."""

    @abc.abstractmethod
    def close(self) -> None:
        """Called when the query has ended: release all connections."""
