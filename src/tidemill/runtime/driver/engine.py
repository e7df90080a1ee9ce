"""The interface between the coordinator and the engine that runs epochs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.runtime.epoch import EpochContext
from tidemill.state.files.state_file import Section


@dataclass(frozen=True)
class EpochInput:
    """The input of one epoch.

    - ``splits`` contains, per source chain, one pickled list of splits per subtask.
    - ``frames`` is the input that the engine itself reads (Spark's batch, files); ``partitions`` is the number of its
      partitions per chain.
    - ``positions`` is the position of each source after the epoch, by the uid of its operator. ``spark`` contains
      Spark's own positions, empty if no source has one any more.
    - ``state`` is what the epoch adds to the state of sources, by uid.
    - ``last`` marks the final epoch of the job. ``ended`` are the chains whose sources have ended, while others may
      continue.
    - ``read`` contains, per source chain and subtask, the partitions of its splits, if the source names partitions.
    - ``pending`` is the number of records that remain for later epochs, by uid, if the source reports it.
      ``max_records`` is the maximum number of records of each source in this epoch.
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
    """Runs the levels of an epoch."""

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        """Run all levels; returns the reports (acks and failures) that reached the driver."""
        ...

    def run_commits(self, tasks: Sequence[tuple[str, int, bytes]]) -> list[bytes]:
        """Run commits of sinks on workers. A task is a sink's uid, its subtask, and the argument of ``run_commit``."""
        ...

    def interrupt(self) -> None:
        """Make the running epoch or commits fail soon, if that is possible. Called from another thread."""
        ...

    def close(self) -> None:
        """Release warm chains and all other resources of the engine for the job."""
        ...
