"""The positions of the sources of a streaming query in a manifest: entries of Spark's offset log, arranged by source.

A manifest contains the entry of the last committed batch as text, and the numbers of each source: the line in the
entry, and the folder of the source's own log. The local engine writes positions of Kafka sources in the same form, so
that a job can move between the two engines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tidemill.checkpoint.spark_logs import HEADER_LINES, NO_OFFSET
from tidemill.errors import GraphError

__all__ = ["SourceNumbers", "arranged", "check_gone", "numbers_for", "positioned"]

#: The streams of each source operator, by its uid. Each is a list of the numbers that Spark has given it, which are the
#: line in the offset log and the folder of the source's own log, and of the kind of source.
SourceNumbers = dict[str, list[list[Any]]]


def numbers_for(offsets: str, numbers: SourceNumbers) -> SourceNumbers | None:
    """Return the numbers if they match the offsets that Spark has logged, else None."""
    return numbers if len(offsets.split("\n")) - HEADER_LINES == _size(numbers) else None


def positioned(stored: Mapping[str, Any] | None) -> set[str]:
    """Return the uids of the sources that have a position in the stored offsets."""
    if stored is None:
        return set()
    lines = stored["offsets"].split("\n")[HEADER_LINES:]
    return {
        uid
        for uid, sources in (stored.get("sources") or {}).items()
        if all(lines[line] != NO_OFFSET for line, _, _ in sources)
    }


def arranged(
    stored: Mapping[str, Any],
    numbers: SourceNumbers,
    *,
    allow_non_restored: bool,
    elsewhere: Collection[str] = frozenset(),
) -> tuple[str, dict[int, int] | None]:
    """Rearrange stored offsets for a query whose sources have these numbers.

    Returns the offsets as that query writes them, and a mapping from the new to the old folders of its sources' logs,
    or None if nothing has moved. ``elsewhere`` are the uids of sources whose positions are now stored elsewhere. Raises
    :class:`GraphError` for a source that no longer exists (unless ``allow_non_restored``), is of another kind, reads
    another number of streams, or now shares a stream with a source that had another position in it.
    """
    offsets: str = stored["offsets"]
    version, metadata, *lines = offsets.split("\n")
    old: SourceNumbers = stored.get("sources") or {}
    if old == numbers or (not old and len(lines) == _size(numbers)):
        return offsets, None
    if version != "v1" or not old or len(lines) != _size(old):
        raise GraphError(
            f"the job was stored with {len(lines)} Spark sources, and their uids are not known; the program has "
            f"{_size(numbers)}. Start it with the sources it had"
        )
    check_gone(old, numbers.keys() | elsewhere, allowed=allow_non_restored)
    moved = [NO_OFFSET] * _size(numbers)
    moves: dict[int, int] = {}
    positions: dict[int, str] = {}
    for uid, sources in numbers.items():
        if uid not in old:
            continue
        kinds, former = [kind for _, _, kind in sources], [kind for _, _, kind in old[uid]]
        if kinds != former:
            raise GraphError(
                f"the source with uid {uid!r} was stored with a position in {_named(former)}, and now reads "
                f"{_named(kinds)}: give the new source another uid"
            )
        for (line, log, _), (old_line, old_log, _) in zip(sources, old[uid], strict=True):
            moved[line] = lines[old_line]
            moves[log] = old_log
            if positions.setdefault(log, lines[old_line]) != lines[old_line]:
                raise GraphError(
                    f"the source with uid {uid!r} reads the same stream as another one, but they were stored with "
                    "different positions in it: use a separate stream for each"
                )
    return "\n".join([version, metadata, *moved]), moves


def check_gone(stored: SourceNumbers, there: Collection[str], *, allowed: bool) -> None:
    """Raise :class:`GraphError` if a position of a source is stored that no longer exists, unless ``allowed``."""
    gone = sorted(stored.keys() - set(there))
    if gone and not allowed:
        raise GraphError(
            f"the job has a position of the Spark source with uid {gone[0]!r}, which is not part of the program. Give "
            "the source the same uid as before, or discard its position with "
            "execution.state-recovery.ignore-unclaimed-state: true"
        )


def _size(numbers: SourceNumbers) -> int:
    """Return the number of places in which a stream is read."""
    return sum(len(sources) for sources in numbers.values())


def _named(kinds: list[str]) -> str:
    return " and ".join(kinds) or "no stream"
