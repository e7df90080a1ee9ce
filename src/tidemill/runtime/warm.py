"""Chains that stay open in a worker between epochs, and the loading of committed state into new ones.

A chain goes on only from the attempt that the head manifest names: what any other attempt left in memory never counted.
A chain without state goes on too, unless it has run the epoch before: its clock has moved, and the records would be
late. Whatever cannot go on is closed, and a new one is built from storage: a cold start is a normal path, not an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.graph.plan import ChainPlan
from tidemill.runtime.chain import Chain
from tidemill.runtime.epoch import EpochContext
from tidemill.state.state_file import Section, decode_sections

if TYPE_CHECKING:
    from tidemill.runtime.task import JobBundle

#: What an entry of state is taken to cost when the cache's budget is checked: a dict slot, a key and a small value.
ENTRY_BYTES: Final = 200


@dataclass
class _Warm:
    chain: Chain
    lineage: str
    epoch: int
    attempt: str


class WarmChains:
    """The chains one worker process keeps, within a budget; the least recently used ones go first."""

    def __init__(self, budget: int = 1 << 30) -> None:
        self.budget = budget
        self._chains: dict[tuple[str, int, int], _Warm] = {}
        self.opened = 0

    def take(self, job_id: str, plan: ChainPlan, subtask: int, context: EpochContext) -> Chain | None:
        """The chain of a subtask, ready to go on, or None. The caller owns it until :meth:`keep`."""
        warm = self._chains.pop((job_id, plan.id, subtask), None)
        if warm is None:
            return None
        chain = warm.chain
        same_shape = warm.lineage == context.lineage and chain.parallelism == context.parallelism[plan.id]
        if same_shape and not chain.backends and warm.epoch < context.epoch:
            return chain
        named = context.attempts.get(plan.id, ())
        if same_shape and subtask < len(named) and named[subtask] == warm.attempt:
            chain.fold()
            return chain
        _close(chain)
        return None

    def keep(self, job_id: str, chain: Chain, context: EpochContext, attempt: str) -> None:
        """Keep a chain whose subtask finished its epoch; after the last epoch it is closed instead."""
        if context.last:
            _close(chain)
            return
        key = (job_id, chain.plan.id, chain.subtask)
        self._chains[key] = _Warm(chain, context.lineage, context.epoch, attempt)
        self._evict(keep=key)

    def drop(self, job_id: str) -> int:
        """Close and forget all chains of a job; the number of chains closed."""
        keys = [key for key in self._chains if key[0] == job_id]
        for key in keys:
            _close(self._chains.pop(key).chain)
        return len(keys)

    def load_state(self, bundle: JobBundle, chain: Chain, context: EpochContext) -> None:
        """Load the state the head manifest stands for into a new chain: only its operators, only its key groups."""
        self.opened += 1
        if context.head is not None and chain.backends:
            chain.load(committed_sections(bundle, chain, context.head))

    def _evict(self, keep: tuple[str, int, int]) -> None:
        total = sum(_size(warm.chain) for warm in self._chains.values())
        for key in list(self._chains):
            if total <= self.budget:
                return
            if key != keep:
                total -= _size(self._chains[key].chain)
                _close(self._chains.pop(key).chain)


def committed_sections(bundle: JobBundle, chain: Chain, head: int) -> Iterator[Section]:
    """The sections of committed state that belong to a chain's subtask, oldest first."""
    manifests = ManifestLog(bundle.storage, bundle.job_id)
    runs = committed_pieces(bundle.storage, manifests, manifests.read(head))
    for backend in chain.backends:
        operator, first, last = {backend.operator}, backend.groups.first, backend.groups.last
        for piece, reader in pieces_for(bundle.storage, runs, operator, first, last):
            yield from decode_sections(reader.read(), piece.file or reader.named_by, operator, first, last)


def _size(chain: Chain) -> int:
    return sum(backend.entries() for backend in chain.backends) * ENTRY_BYTES


def _close(chain: Chain) -> None:
    # A user function that raises while it is put away cannot hurt an epoch any more.
    with contextlib.suppress(Exception):
        chain.close()
