"""A source that reads several sources one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.sources import ClockOf, Position, Source, Split, SplitEnumerator, SplitSource
from tidemill.errors import ConfigurationError, GraphError

__all__ = ["HybridSource", "HybridSourceBuilder"]

#: The keys of a position: the number of the current source, and the position in it.
_SOURCE: Final = "source"
_INSIDE: Final = "position"
#: The partitions of the current source whose last split has not been returned yet.
_OPEN: Final = "open"


class HybridSource(SplitSource):
    """Reads bounded sources one after the other, then a last one that may be unbounded; created with :meth:`builder`.

    Each source begins when all records of the one before it are assigned to an epoch. The position is that of the
    current source, so each record counts once over restarts. A source that names partitions must mark the last split of
    each, except for the last source: otherwise the partition would hold back the watermark forever.

    All sources must be read in plain Python. Sources that Spark reads (files, Kafka, DataFrames) are rejected.

    >>> from tidemill.datastream.connectors.number_seq import NumberSequenceSource
    >>> source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(NumberSequenceSource(10, 11)).build()
    >>> enumerator = source.create_enumerator(None)
    >>> while not enumerator.finished:
    ...     [batch.values for split in enumerator.next_splits(1, 2) for batch in source.read(split)]
    [[1, 2]]
    [[3]]
    [[10, 11]]
    """

    def __init__(self, sources: Sequence[SplitSource]) -> None:
        self._sources = tuple(sources)
        self.bounded = self._sources[-1].bounded
        self.replayable = all(source.replayable for source in self._sources)
        self.type_info = _common_type(self._sources)
        fixed = [source.parallelism for source in self._sources if source.parallelism is not None]
        self.parallelism = min(fixed, default=None)

    @property
    def clock_of(self) -> ClockOf:
        return self._sources[0].clock_of

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Start building a source that reads ``first_source`` first."""
        return HybridSourceBuilder().add_source(first_source)

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that begins in the source, and at the position, at which the previous one ended."""
        if position is None:
            return _HybridEnumerator(self._sources, 0, None, ())
        return _HybridEnumerator(self._sources, int(position[_SOURCE]), position[_INSIDE], position[_OPEN])

    def read(self, split: Split) -> Iterator[Any]:
        """Read a split with the source that it belongs to."""
        number, payload, partition = split.payload
        source = self._sources[number]
        yield from source.read(replace(split, payload=payload, partition=partition))


class HybridSourceBuilder:
    """Builds a :class:`HybridSource`."""

    def __init__(self) -> None:
        self._sources: list[SplitSource] = []

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """Add a source that is read after the others; all of them but the last must be bounded."""
        if not isinstance(source, Source):
            raise TypeError(f"a HybridSource needs a Source, not {type(source).__name__}")
        given = source.resolved()
        if not isinstance(given, SplitSource):
            raise ConfigurationError(
                f"a HybridSource cannot contain a {type(given).__name__}, which Spark reads: run the program with the "
                "first source, take a savepoint, and resume it with the second one under another uid"
            )
        if self._sources:
            self._check(self._sources[-1], given)
        self._sources.append(given)
        return self

    def build(self) -> HybridSource:
        """Build the source."""
        return HybridSource(self._sources)

    def _check(self, before: SplitSource, after: SplitSource) -> None:
        if not before.bounded:
            raise ConfigurationError(
                f"source {len(self._sources)} of a HybridSource is unbounded: only the last one may be, because the "
                "next one begins when it ends"
            )
        if before.clock_of is not after.clock_of:
            raise ConfigurationError(
                f"a HybridSource cannot contain a {type(before).__name__} and a {type(after).__name__}: they track "
                f"event time differently, per {before.clock_of.value} and per {after.clock_of.value}"
            )


class _HybridEnumerator(SplitEnumerator):
    def __init__(
        self, sources: Sequence[SplitSource], number: int, position: Position | None, opened: Sequence[str]
    ) -> None:
        self._sources = sources
        self._number = number
        self._open = set(opened)
        self._current = sources[number].create_enumerator(position)

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split | Sequence[Split]]:
        self._move_on()
        given = self._current.next_splits(parallelism, max_records)
        return [self._marked(one) if isinstance(one, Split) else [self._marked(each) for each in one] for one in given]

    def position(self) -> Position:
        return {_SOURCE: self._number, _INSIDE: self._current.position(), _OPEN: sorted(self._open)}

    @property
    def finished(self) -> bool:
        return self._is_last and self._current.finished

    def available(self) -> bool:
        return not self._is_last if self._current.finished else self._current.available()

    def pending_records(self) -> int | None:
        return self._current.pending_records()

    def close(self) -> None:
        self._current.close()

    @property
    def _is_last(self) -> bool:
        return self._number == len(self._sources) - 1

    def _move_on(self) -> None:
        """Begin with the next source if the current one has no more splits."""
        while self._current.finished and not self._is_last:
            if self._open:
                raise GraphError(
                    f"source {self._number + 1} of a HybridSource, a {type(self._sources[self._number]).__name__}, has "
                    f"ended without the last split of its partition {min(self._open)!r} (Split.last), which would hold "
                    "back the watermark forever"
                )
            self._current.close()
            self._number += 1
            self._current = self._sources[self._number].create_enumerator(None)

    def _marked(self, split: Split) -> Split:
        """Mark a split with the number of its source, which also distinguishes partitions with the same name."""
        name = None if split.partition is None else f"{self._number}/{split.partition}"
        if split.partition is not None and not self._is_last:
            (self._open.discard if split.last else self._open.add)(split.partition)
        return replace(split, payload=(self._number, split.payload, split.partition), partition=name)


def _common_type(sources: Sequence[SplitSource]) -> TypeInformation | None:
    """Return the type of all sources if they have the same one."""
    types = [getattr(source, "type_info", None) for source in sources]
    return types[0] if all(one == types[0] for one in types) else None
