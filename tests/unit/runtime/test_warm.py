"""Warm chains: which go on, which are built anew, and that both give the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.runtime.plans import bundle
from tidemill.datastream import MapFunction
from tidemill.runtime.chain import Chain, ChainSettings
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.warm import WarmChains

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


def build(env: Any, function: Any = None) -> Any:
    return env.from_collection([("a", 1)]).map(function or Closing()).key_by(0).sum(1)


PLAN = bundle(build).plan
STATELESS = next(chain for chain in PLAN.chains if chain.head.spec_kind == "MapSpec")
KEYED = next(chain for chain in PLAN.chains if chain.head.keyed)
CONTEXT = EpochContext("unit", "lineage", 2, 0, None, 0, (2, 2, 2), attempts={KEYED.id: ("one", "two")})


def open_chain(plan: Any = KEYED, subtask: int = 0) -> Chain:
    edges = {edge.source_operator: [(edge.id, edge.side_output)] for edge in PLAN.edges_from(plan.id)}
    chain = Chain(plan, edges, subtask, 2, ChainSettings())
    chain.open()
    return chain


def previous(context: EpochContext = CONTEXT) -> EpochContext:
    return replace(context, epoch=context.epoch - 1)


def test_a_chain_goes_on_from_the_attempt_that_counted() -> None:
    warm, chain = WarmChains(), open_chain()
    warm.keep("unit", chain, previous(), "one")
    assert warm.take("unit", KEYED, 0, CONTEXT) is chain
    assert warm.take("unit", KEYED, 0, CONTEXT) is None  # taken: it is its user's now


def test_what_another_attempt_left_is_not_used() -> None:
    warm = WarmChains()
    warm.keep("unit", open_chain(), previous(), "never acked")
    assert warm.take("unit", KEYED, 0, CONTEXT) is None


def test_another_subtask_job_lineage_or_parallelism_does_not_match() -> None:
    changes: list[dict[str, Any]] = [{"lineage": "other"}, {"parallelism": (2, 2, 3)}, {"attempts": {}}]
    for change in changes:
        warm = WarmChains()
        warm.keep("unit", open_chain(), previous(), "one")
        assert warm.take("unit", KEYED, 0, replace(CONTEXT, **change)) is None
    warm = WarmChains()
    warm.keep("unit", open_chain(), previous(), "one")
    assert warm.take("other", KEYED, 0, CONTEXT) is None
    assert warm.take("unit", KEYED, 1, CONTEXT) is None
    assert warm.take("unit", KEYED, 0, CONTEXT) is not None


def test_a_chain_without_state_goes_on_but_not_in_a_rerun() -> None:
    warm, chain = WarmChains(), open_chain(STATELESS)
    warm.keep("unit", chain, previous(), "whoever")
    assert warm.take("unit", STATELESS, 0, CONTEXT) is chain
    warm.keep("unit", chain, CONTEXT, "whoever")
    assert warm.take("unit", STATELESS, 0, CONTEXT) is None  # its clock has moved already


def test_chains_are_closed_when_they_are_given_up() -> None:
    CLOSED.clear()
    warm = WarmChains()
    warm.keep("unit", open_chain(STATELESS), replace(CONTEXT, last=True), "x")
    assert CLOSED == ["closed"]
    warm.keep("unit", open_chain(STATELESS), CONTEXT, "x")
    warm.keep("unit", open_chain(STATELESS, 1), CONTEXT, "x")
    assert warm.drop("other") == 0
    assert warm.drop("unit") == 2
    assert CLOSED == ["closed"] * 3


def test_a_function_that_fails_to_close_hurts_nobody() -> None:
    CLOSED.clear()
    plan = bundle(lambda env: build(env, ClosingBadly())).plan
    stateless = next(chain for chain in plan.chains if chain.head.spec_kind == "MapSpec")
    warm = WarmChains()
    warm.keep("unit", open_chain(stateless), replace(CONTEXT, last=True), "x")
    assert CLOSED == ["badly"]


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
    assert warm.take("unit", KEYED, 0, CONTEXT) is None
    assert warm.take("unit", KEYED, 1, CONTEXT) is not None
