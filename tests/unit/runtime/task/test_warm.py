"""Warm chains: which continue, which are built anew, and that both give the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.runtime.plans import bundle
from tidemill.checkpoint.model import Epoch
from tidemill.datastream import CheckpointListener, ListCheckpointed, MapFunction
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.task.chain import Chain, ChainSettings
from tidemill.runtime.task.warm import WarmChains
from tidemill.state.keys.key_groups import Subtask

CLOSED: list[str] = []


class Closing(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        CLOSED.append("closed")


class ClosingBadly(Closing):
    def close(self) -> None:
        CLOSED.append("badly")
        raise RuntimeError("cannot close")


class Remembering(Closing, ListCheckpointed, CheckpointListener):
    """Has operator state, and notes what it hears."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [checkpoint_id]

    def restore_state(self, state: list[Any]) -> None:
        pass

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CLOSED.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        CLOSED.append(f"aborted {checkpoint_id}")
        raise RuntimeError("and nobody minds")


def build(env: Any, function: Any = None) -> Any:
    return env.from_collection([("a", 1)]).map(function or Closing()).key_by(0).sum(1)


PLAN = bundle(build).plan
STATELESS = next(chain for chain in PLAN.chains if chain.head.spec_kind == "MapSpec")
KEYED = next(chain for chain in PLAN.chains if chain.head.keyed)
CONTEXT = EpochContext("unit", "lineage", Epoch(2), 0, None, 0, (2, 2, 2), attempts={KEYED.id: ("one", "two")})


def open_chain(plan: Any = KEYED, subtask: int = 0) -> Chain:
    edges = {edge.source_operator: [(edge.id, edge.side_output)] for edge in PLAN.edges_from(plan.id)}
    chain = Chain(plan, edges, Subtask(subtask), 2, ChainSettings())
    chain.open()
    return chain


def previous(context: EpochContext = CONTEXT) -> EpochContext:
    return replace(context, epoch=Epoch(context.epoch - 1))


def test_a_chain_continues_from_the_attempt_that_counted() -> None:
    warm, chain = WarmChains(), open_chain()
    warm.keep("unit", chain, previous(), "one")
    assert warm.take("unit", KEYED, Subtask(0), CONTEXT) is chain
    assert warm.take("unit", KEYED, Subtask(0), CONTEXT) is None  # taken: it is its user's now


def test_what_another_attempt_left_is_not_used() -> None:
    warm = WarmChains()
    warm.keep("unit", open_chain(), previous(), "never acked")
    assert warm.take("unit", KEYED, Subtask(0), CONTEXT) is None


def test_another_subtask_job_lineage_or_parallelism_does_not_match() -> None:
    changes: list[dict[str, Any]] = [{"lineage": "other"}, {"parallelism": (2, 2, 3)}, {"attempts": {}}]
    for change in changes:
        warm = WarmChains()
        warm.keep("unit", open_chain(), previous(), "one")
        assert warm.take("unit", KEYED, Subtask(0), replace(CONTEXT, **change)) is None
    warm = WarmChains()
    warm.keep("unit", open_chain(), previous(), "one")
    assert warm.take("other", KEYED, Subtask(0), CONTEXT) is None
    assert warm.take("unit", KEYED, Subtask(1), CONTEXT) is None
    assert warm.take("unit", KEYED, Subtask(0), CONTEXT) is not None


def test_chains_that_no_epoch_can_continue_with_are_closed_wherever_a_task_runs() -> None:
    warm = WarmChains()
    for subtask in range(2):
        warm.keep("unit", open_chain(STATELESS, subtask), previous(), "one")
    kept = open_chain(KEYED, 1)
    warm.keep("unit", kept, previous(), "two")
    warm.keep("another job", open_chain(STATELESS), previous(), "one")
    CLOSED.clear()
    narrower = tuple(1 if chain.id == STATELESS.id else 2 for chain in PLAN.chains)
    assert warm.take("unit", KEYED, Subtask(0), replace(CONTEXT, parallelism=narrower)) is None
    assert CLOSED == ["closed", "closed"]
    assert warm.take("unit", KEYED, Subtask(1), replace(CONTEXT, parallelism=narrower)) is kept
    warm.retire("another job", replace(CONTEXT, lineage="later"))
    assert CLOSED == ["closed"] * 3


def test_what_another_attempt_of_a_subtask_leaves_takes_its_place() -> None:
    warm, chain = WarmChains(), open_chain(STATELESS)
    warm.keep("unit", open_chain(STATELESS), previous(), "one")
    CLOSED.clear()
    warm.keep("unit", chain, previous(), "two")
    assert CLOSED == ["closed"]
    assert warm.take("unit", STATELESS, Subtask(0), CONTEXT) is chain


def test_a_chain_without_state_continues_but_not_in_a_rerun() -> None:
    warm, chain = WarmChains(), open_chain(STATELESS)
    warm.keep("unit", chain, previous(), "whoever")
    assert warm.take("unit", STATELESS, Subtask(0), CONTEXT) is chain
    warm.keep("unit", chain, CONTEXT, "whoever")
    assert warm.take("unit", STATELESS, Subtask(0), CONTEXT) is None  # its clock has moved already


WITH_STATE = bundle(lambda env: build(env, Remembering())).plan.chains[STATELESS.id]


def remembering(context: EpochContext) -> Chain:
    CLOSED.clear()
    chain = open_chain(WITH_STATE)
    chain.begin_epoch(0, {})
    chain.end_epoch()
    chain.snapshot_state(context.epoch, 0)
    return chain


def test_a_chain_with_operator_state_continues_only_from_the_attempt_that_counted() -> None:
    assert WITH_STATE.stateful
    context = replace(CONTEXT, attempts={WITH_STATE.id: ("one", "two")}, after_checkpoint=True)
    warm, chain = WarmChains(), remembering(previous())
    warm.keep("unit", chain, previous(), "another")
    assert warm.take("unit", WITH_STATE, Subtask(0), context) is None
    assert CLOSED == ["closed"]
    chain = remembering(previous())
    warm.keep("unit", chain, previous(), "one")
    assert warm.take("unit", WITH_STATE, Subtask(0), context) is chain
    chain.begin_epoch(0, {})
    assert CLOSED == ["complete 1"]


def test_a_chain_is_notified_that_its_epoch_is_run_again() -> None:
    warm = WarmChains()
    warm.keep("unit", remembering(CONTEXT), CONTEXT, "one")
    assert warm.take("unit", WITH_STATE, Subtask(0), replace(CONTEXT, rerun=1)) is None
    assert CLOSED == ["aborted 2", "closed"]
    # A second attempt of the same run may still be the one that does not count.
    warm.keep("unit", remembering(CONTEXT), CONTEXT, "one")
    assert warm.take("unit", WITH_STATE, Subtask(0), CONTEXT) is None
    assert CLOSED == ["closed"]


def test_chains_are_closed_when_they_are_given_up() -> None:
    CLOSED.clear()
    warm = WarmChains()
    warm.keep("unit", open_chain(STATELESS), CONTEXT, "x")
    warm.keep("unit", open_chain(STATELESS, 1), CONTEXT, "x")
    assert warm.drop("other") == 0
    assert warm.drop("unit") == 2
    assert CLOSED == ["closed"] * 2


def test_a_chain_that_is_given_up_and_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    CLOSED.clear()
    plan = bundle(lambda env: build(env, ClosingBadly())).plan
    stateless = next(chain for chain in plan.chains if chain.head.spec_kind == "MapSpec")
    warm = WarmChains()
    warm.keep("unit", open_chain(stateless), CONTEXT, "x")
    assert warm.drop("unit") == 1
    assert CLOSED == ["badly"]
    assert "cannot close" in caplog.text


def test_the_least_recently_used_chains_make_room() -> None:
    def with_entries(subtask: int) -> Chain:
        chain = open_chain(KEYED, subtask)
        (backend,) = chain.backends
        for key in range(100):
            backend.context.key = key
            backend.state("_reduce_state").add((key, 1))
        backend.fold()
        return chain

    warm = WarmChains(budget=150 * 200)
    warm.keep("unit", with_entries(0), previous(), "one")
    warm.keep("unit", with_entries(1), previous(), "two")
    assert warm.take("unit", KEYED, Subtask(0), CONTEXT) is None
    assert warm.take("unit", KEYED, Subtask(1), CONTEXT) is not None
