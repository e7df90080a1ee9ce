"""The input of jobs whose sources are read in plain Python: the driver requests splits from each enumerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.connectors.sources import Split, SplitEnumerator, SplitSource
from tidemill.datastream.functions.pickling import pickled_by_value
from tidemill.graph.plan import JobPlan
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.rescaling import JobParallelism


class SplitInput:
    """The enumerators of all split sources of a job, starting from a committed position.

    A BATCH job is one epoch: with ``whole``, splits are collected until all sources have ended.
    """

    def __init__(
        self,
        plan: JobPlan,
        sources: Mapping[int, SplitSource],
        positions: Mapping[str, Any],
        parallelism: JobParallelism,
        max_records: int | EpochLimit,
        *,
        whole: bool = False,
    ) -> None:
        """``sources`` maps chains to the program's own source objects; ``positions`` are those of the head manifest.

        ``max_records`` is the limit per source and epoch.
        """
        self._plan = plan
        self._parallelism = parallelism
        self._limit = max_records if isinstance(max_records, EpochLimit) else EpochLimit(max_records, None)
        self.whole = whole
        self._held: dict[int, list[list[Any]]] = {}
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
        """The input of the next epoch, distributed to the currently requested number of subtasks.

        It is the last one if all sources end with it. If the input is ``whole``, only the last one is to be run: it
        contains all splits.
        """
        self._parallelism.take_up()
        positions = {}
        max_records = self._limit.records
        read: dict[int, list[set[str]]] = {}
        for chain, enumerator in self._enumerators.items():
            width = self._parallelism.of(chain)
            found = [] if enumerator.finished else enumerator.next_splits(width, max_records)
            ready = [_several(splits) for splits in found]
            held = self._held.setdefault(chain, [])
            held += [[] for _ in range(len(ready) - len(held))]
            for splits, more in zip(held, ready, strict=False):
                splits.extend(more)
            read[chain] = [{split.partition for split in splits if split.partition is not None} for splits in ready]
            positions[self._plan.chains[chain].head.uid] = enumerator.position()
        inputs = EpochInput(
            splits={chain: [_dump(splits) for splits in held] for chain, held in self._held.items()}
            if self.finished or not self.whole
            else {},
            positions=positions,
            last=self.finished,
            ended=[chain for chain, enumerator in self._enumerators.items() if enumerator.finished],
            read={chain: partitions for chain, partitions in read.items() if any(partitions)},
            pending=self._pending(),
            max_records=max_records,
        )
        if not self.whole:
            self._held.clear()
        return inputs

    def end_of_input(self) -> EpochInput:
        """The input of an epoch that reads nothing and advances event time to its end, as if all sources had ended."""
        self._parallelism.take_up()
        return EpochInput(
            positions={self._plan.chains[chain].head.uid: e.position() for chain, e in self._enumerators.items()},
            last=True,
            ended=list(self._enumerators),
        )

    def committed(self) -> None:
        """Report to the enumerators that the epoch of the last input has been committed."""
        for enumerator in self._enumerators.values():
            enumerator.committed()

    def _pending(self) -> dict[str, int]:
        waiting = {chain: enumerator.pending_records() for chain, enumerator in self._enumerators.items()}
        return {self._plan.chains[chain].head.uid: count for chain, count in waiting.items() if count is not None}

    def close(self) -> None:
        """Release all enumerators."""
        for enumerator in self._enumerators.values():
            enumerator.close()


def _several(splits: Split | Sequence[Split]) -> list[Split]:
    return [splits] if isinstance(splits, Split) else list(splits)


def _dump(splits: list[Any]) -> bytes:
    # Records may be instances of a class defined in the main script, which workers cannot import.
    return pickled_by_value(splits)
