"""Chains that stay open in a worker between epochs, and the loading of committed state into new chains.

A chain is reused only if its last attempt is the one that the head manifest names: the memory of any other attempt is
not valid. A chain without state is reused too, unless it has already run the same epoch: its clock has advanced, and
the records would be late. A chain that cannot be reused is closed, and a new one is built from storage: a cold start is
a normal path, not an error.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.checkpoint.versions import runs_after
from tidemill.graph.plan import ChainPlan
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.task.chain import Chain
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.state.files.state_file import Section, decode_sections
from tidemill.state.keyed.backend import StateVersion
from tidemill.state.keys.key_groups import Subtask
from tidemill.state.operator.operator_state import ONLY_GROUP, is_operator_state

log = logging.getLogger(__name__)


@dataclass
class _Warm:
    chain: Chain
    lineage: str
    epoch: Epoch
    rerun: int
    attempt: str


class WarmChains:
    """The chains that a worker process keeps open, within a memory budget. Evicts the least recently used first."""

    def __init__(self, budget: int = 1 << 30) -> None:
        self.budget = budget
        self._chains: dict[tuple[str, int, int], _Warm] = {}
        self.opened = 0

    @property
    def chains(self) -> list[Chain]:
        """The chains that are currently kept."""
        return [warm.chain for warm in self._chains.values()]

    def take(self, job_id: str, plan: ChainPlan, subtask: Subtask, context: EpochContext) -> Chain | None:
        """The chain of a subtask if it can be reused, otherwise None. The caller owns it until :meth:`keep`."""
        self.retire(job_id, context)
        warm = self._chains.pop((job_id, plan.id, subtask), None)
        if warm is None:
            return None
        chain = warm.chain
        if not plan.stateful and warm.epoch < context.epoch:
            return chain
        named = context.attempts.get(plan.id, ())
        if subtask < len(named) and named[subtask] == warm.attempt:
            try:
                version = StateVersion(context.lineage, context.head or 0, warm.epoch)
                chain.fold(version, announce=context.after_checkpoint)
            except BaseException:
                _close(chain)
                raise
            return chain
        if warm.epoch == context.epoch and warm.rerun < context.rerun:
            with contextlib.suppress(Exception):  # the chain is closed anyway
                chain.aborted()
        _close(chain)
        return None

    def keep(self, job_id: str, chain: Chain, context: EpochContext, attempt: str) -> None:
        """Keep a chain whose subtask finished its epoch, which is not the last."""
        key = (job_id, chain.plan.id, chain.subtask)
        if (replaced := self._chains.pop(key, None)) is not None:
            _close(replaced.chain)
        self._chains[key] = _Warm(chain, context.lineage, context.epoch, context.rerun, attempt)
        self._evict(keep=key)

    def retire(self, job_id: str, context: EpochContext) -> None:
        """Close the chains of a job that cannot be reused: those of another lineage or another parallelism."""
        for key, warm in list(self._chains.items()):
            if key[0] == job_id and not (
                warm.lineage == context.lineage and warm.chain.parallelism == context.parallelism[key[1]]
            ):
                chain = self._chains.pop(key).chain
                _close(chain, forget=chain.parallelism != context.parallelism[key[1]])

    def drop(self, job_id: str, *, forget: bool = True) -> int:
        """Close all chains of a job and return their number; with ``forget``, remove their files on local disk."""
        keys = [key for key in self._chains if key[0] == job_id]
        for key in keys:
            _close(self._chains.pop(key).chain, forget=forget)
        return len(keys)

    def load_state(self, bundle: JobBundle, chain: Chain, context: EpochContext) -> None:
        """Load the state of the head manifest into a new chain: only its operators, only its key groups."""
        self.opened += 1
        if context.head is not None and (chain.backends or chain.operator_states):
            load_committed(bundle, chain, context.head)
        elif context.head is None:
            for backend in chain.backends:
                backend.reset()

    def _evict(self, keep: tuple[str, int, int]) -> None:
        total = sum(_size(warm.chain) for warm in self._chains.values())
        for key in list(self._chains):
            if total <= self.budget:
                return
            if key != keep:
                total -= _size(self._chains[key].chain)
                _close(self._chains.pop(key).chain)


def load_committed(bundle: JobBundle, chain: Chain, head_slot: int) -> None:
    """Load the state of a manifest into a new chain. A backend that has state on its disk loads only newer runs."""
    manifests = ManifestLog(bundle.storage, bundle.job_id)
    head = manifests.read(head_slot)
    for backend in chain.backends:
        found = backend.version()
        if found is not None and runs_after(head, found, manifests.read) is None:
            backend.reset()
    chain.load(committed_sections(bundle, chain, head_slot))
    for backend in chain.backends:
        backend.loaded(StateVersion(head.lineage, head.slot, head.epoch))


def committed_sections(bundle: JobBundle, chain: Chain, head_slot: int) -> Iterator[Section]:
    """The sections of committed state that belong to a chain's subtask and are not on its disk, oldest first."""
    manifests = ManifestLog(bundle.storage, bundle.job_id)
    head = manifests.read(head_slot)
    runs = committed_pieces(bundle.storage, manifests, head)
    for backend in chain.backends:
        operator, first, last = {backend.operator}, backend.groups.first, backend.groups.last
        found = backend.version()
        wanted = head.runs if found is None else runs_after(head, found, manifests.read) or ()
        needed = [(run, pieces) for run, pieces in runs if run in wanted]
        for piece, reader in pieces_for(bundle.storage, needed, operator, first, last):
            data = reader.for_groups({backend.operator: (first, last)})
            sections = decode_sections(data, piece.file or reader.named_by, operator, first, last)
            yield from (section for section in sections if not is_operator_state(section))
    for states in chain.operator_states:
        operator = {states.operator}
        for piece, reader in pieces_for(bundle.storage, runs, operator, ONLY_GROUP, ONLY_GROUP):
            data = reader.for_groups({states.operator: (ONLY_GROUP, ONLY_GROUP)})
            sections = decode_sections(data, piece.file or reader.named_by, operator, ONLY_GROUP, ONLY_GROUP)
            yield from (section for section in sections if is_operator_state(section))


def _size(chain: Chain) -> int:
    return sum(states.memory() for states in chain.states())


def _close(chain: Chain, *, forget: bool = False) -> None:
    try:
        chain.close(forget=forget)
    except Exception as error:
        # Whatever counts of what the chain did is committed.
        log.warning("A function could not be closed, which affects no epoch: %s", error)
