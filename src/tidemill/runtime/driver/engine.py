"""What runs epochs, as the coordinator sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.runtime.epoch import EpochContext
from tidemill.state.files.state_file import Section


@dataclass(frozen=True)
class EpochInput:
    """The input of one epoch.

    ``splits`` gives, per source chain, one pickled list of splits per subtask. ``frames`` are what the engine itself
    reads (Spark's batch, files), with the number of their partitions per chain in ``partitions``. ``positions`` is
    where each source stands afterwards, by the uid of its operator; ``spark`` are Spark's own positions, empty if no
    source has one any more. ``state`` is what the epoch adds to the state of sources, by uid. ``ended`` are the chains
    whose sources have ended, while others may go on. ``read`` names, per source chain and subtask, the partitions
    that its splits are from, where the source names them. ``pending`` is, by uid, how many records are left for later
    epochs, where the source knows; ``max_records`` is how many of each source the epoch might have had.
    """

    splits: Mapping[int, list[bytes]] = field(default_factory=dict)
    frames: Sequence[Any] = ()
    partitions: Mapping[int, int] = field(default_factory=dict)
    positions: Mapping[str, Any] = field(default_factory=dict)
    spark: dict[str, Any] | None = None
    state: Mapping[str, Section] = field(default_factory=dict)
    last: bool = False
    ended: Collection[int] = ()
    read: Mapping[int, Sequence[Collection[str]]] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    max_records: int | None = None


class Engine(Protocol):
    """Runs the levels of an epoch somewhere."""

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        """Run all levels; returns the reports (acks and failures) that reached the driver."""
        ...

    def run_commits(self, tasks: Sequence[tuple[str, int, bytes]]) -> list[bytes]:
        """Run commits of sinks on workers: per task the sink's uid, its subtask, and what ``run_commit`` takes."""
        ...

    def interrupt(self) -> None:
        """Have the epoch or the commits that run fail soon, if that is possible; called from another thread."""
        ...

    def close(self) -> None:
        """Let go of warm chains and whatever else the engine holds for the job."""
        ...
