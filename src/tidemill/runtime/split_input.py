"""The input of jobs whose sources are read in plain Python: the driver asks each enumerator for the next splits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cloudpickle

from tidemill.datastream.sources import SplitEnumerator, SplitSource
from tidemill.graph.plan import JobPlan
from tidemill.runtime.coordinator import EpochInput


class SplitInput:
    """The enumerators of all split sources of a job, from a committed position on."""

    def __init__(
        self,
        plan: JobPlan,
        sources: Mapping[int, SplitSource],
        positions: Mapping[str, Any],
        parallelism: int,
        max_records: int,
    ) -> None:
        """``sources`` maps chains to the program's own source objects; ``positions`` are the head manifest's."""
        self._plan = plan
        self._parallelism = parallelism
        self._max_records = max_records
        self._enumerators: dict[int, SplitEnumerator] = {
            chain: source.create_enumerator(positions.get(plan.chains[chain].head.uid))
            for chain, source in sources.items()
        }

    @property
    def finished(self) -> bool:
        """Whether all sources have ended."""
        return all(enumerator.finished for enumerator in self._enumerators.values())

    def available(self) -> bool:
        """Whether an epoch would have input now."""
        return any(not e.finished and e.available() for e in self._enumerators.values())

    def next_input(self) -> EpochInput:
        """The input of the next epoch; it is the last one if all sources end with it."""
        splits = {}
        positions = {}
        for chain, enumerator in self._enumerators.items():
            width = self._plan.chains[chain].parallelism or self._parallelism
            ready = [] if enumerator.finished else enumerator.next_splits(width, self._max_records)
            splits[chain] = [_dump(split) for split in ready]
            positions[self._plan.chains[chain].head.uid] = enumerator.position()
        return EpochInput(splits=splits, positions=positions, last=self.finished)

    def close(self) -> None:
        """Release all enumerators."""
        for enumerator in self._enumerators.values():
            enumerator.close()


def _dump(split: Any) -> bytes:
    # Records may be of a class defined in the main script, which no worker can import.
    data: bytes = cloudpickle.dumps(split, 5)
    return data
