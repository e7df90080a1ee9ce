"""Requests for another parallelism: what is allowed, when they take effect, when they are done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.plans import launch
from tidemill.common import CompletableFuture
from tidemill.datastream import RuntimeExecutionMode
from tidemill.errors import ConfigurationError, GraphError, JobCancelledError, JobExecutionError, TidemillError
from tidemill.runtime.driver.launch import Launch
from tidemill.runtime.driver.rescaling import JobParallelism, with_stored_max_parallelism


def program(env: Any) -> Any:
    """Chains: numbers -> doubled | count -> shown | fixed, and a source of one subtask that is read apart."""
    numbers = env.from_sequence(1, 9).uid("numbers").map(lambda n: 2 * n).uid("doubled")
    counted = numbers.key_by(lambda n: n % 3).map_with_state(lambda n, s: (n, n)).uid("count").set_max_parallelism(8)
    shown = counted.map(lambda n: n).uid("shown").disable_chaining()
    one = env.from_collection([1]).uid("one").map(lambda n: n).uid("behind one").disable_chaining().set_parallelism(1)
    return shown.rebalance().map(lambda n: n).uid("fixed").set_parallelism(3).union(one.rebalance())


def started(build: Any = program) -> tuple[Launch, JobParallelism]:
    launched = launch(build)
    return launched, launched.parallelism(2)


def widths(launched: Launch, parallelism: JobParallelism) -> dict[str, int]:
    return {operator.uid: parallelism.of(chain.id) for chain in launched.plan.chains for operator in chain.operators}


def error_of(future: CompletableFuture[None]) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        future.result(timeout=0)
    return raised.value


def test_an_int_is_for_all_that_have_no_parallelism_of_their_own() -> None:
    launched, parallelism = started()
    before = widths(launched, parallelism)
    assert {uid: width for uid, width in before.items() if width != 2} == {"one": 1, "behind one": 1, "fixed": 3}
    parallelism.request(4)
    assert widths(launched, parallelism) == before, "an epoch may be running"
    parallelism.take_up()
    after = widths(launched, parallelism)
    assert {uid for uid in after if after[uid] == 4} == {uid for uid in before if before[uid] == 2}
    assert (after["one"], after["behind one"], after["fixed"]) == (1, 1, 3)


def test_a_mapping_names_operators_also_those_the_program_has_fixed() -> None:
    launched, parallelism = started()
    before = widths(launched, parallelism)
    parallelism.request({"fixed": 5})
    parallelism.request({"doubled": 3})
    parallelism.take_up()
    assert widths(launched, parallelism) == {**before, "fixed": 5, "doubled": 3, "numbers": 3}


def test_what_is_connected_by_a_forward_edge_moves_together() -> None:
    launched, parallelism = started()
    parallelism.request({"shown": 6})
    parallelism.take_up()
    assert widths(launched, parallelism)["count"] == widths(launched, parallelism)["shown"] == 6
    error = error_of(parallelism.request({"shown": 2, "count": 3}))
    assert isinstance(error, GraphError)
    assert "they are rescaled together" in str(error)


def test_a_request_is_done_when_the_first_epoch_with_it_is_committed() -> None:
    _, parallelism = started()
    early = parallelism.request(3)
    parallelism.take_up()
    late = parallelism.request(4)
    assert parallelism.pending
    parallelism.committed()
    assert early.done()
    assert not late.done(), "the epoch had not heard of it"
    parallelism.take_up()
    parallelism.take_up()  # the epoch failed and is run again
    assert not late.done()
    parallelism.committed()
    assert late.done()
    assert not parallelism.pending


def test_a_client_may_lose_interest() -> None:
    _, parallelism = started()
    given_up = parallelism.request(3)
    assert given_up.cancel()
    kept = parallelism.request(4)
    parallelism.take_up()
    parallelism.committed()
    assert kept.done()
    parallelism.request(5).cancel()
    parallelism.end(None)


def test_a_job_that_is_over_fails_what_waits_and_what_comes() -> None:
    _, parallelism = started()
    waiting = parallelism.request(3)
    parallelism.end(JobCancelledError("the job was cancelled"))
    assert isinstance(error_of(waiting), JobCancelledError)
    assert isinstance(error_of(parallelism.request(4)), JobCancelledError)
    _, finished = started()
    finished.end(None)
    assert isinstance(error_of(finished.request(4)), JobExecutionError)
    assert "has finished" in str(error_of(finished.request(4)))


@pytest.mark.parametrize("wanted", [0, -1, 1.5, True, "2", None])
def test_a_parallelism_is_an_int_from_one(wanted: Any) -> None:
    _, parallelism = started()
    error = error_of(parallelism.request(wanted))
    assert isinstance(error, ConfigurationError)
    assert "must be a positive int" in str(error)
    assert "operator 'Map' (uid fixed)" in str(error_of(parallelism.request({"fixed": wanted})))
    assert not parallelism.pending


def test_nothing_is_wider_than_its_max_parallelism() -> None:
    _, parallelism = started()
    error = error_of(parallelism.request(9))
    assert isinstance(error, GraphError)
    assert "(uid count) cannot have parallelism 9: its max parallelism is 8" in str(error)
    assert "max parallelism is 8" in str(error_of(parallelism.request({"shown": 9})))
    parallelism.request({"doubled": 9})
    parallelism.take_up()


def test_mistakes() -> None:
    _, parallelism = started()
    assert "no operator has the uid 'dubbled'; there are" in str(error_of(parallelism.request({"dubbled": 2})))
    error = str(error_of(parallelism.request({"behind one": 2})))
    assert "cannot be rescaled" in error
    assert "(uid one), which has parallelism 1" in error


def test_a_batch_job_has_no_place_between_two_epochs() -> None:
    def batch(env: Any) -> Any:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        return program(env)

    _, parallelism = started(batch)
    assert "runs in BATCH mode" in str(error_of(parallelism.request(2)))


# --- max parallelism that the state has


def stored(build: Any, most: int, *, lower: bool = False) -> Any:
    plan = launch(build, parallelism=4).plan
    return with_stored_max_parallelism(plan, {"count": most}, lower=lower)


def keyed(env: Any) -> Any:
    return env.from_sequence(1, 9).key_by(lambda n: n % 3).map_with_state(lambda n, s: (n, n)).uid("count")


def of(plan: Any, uid: str) -> Any:
    return next((chain, op) for chain in plan.chains for op in chain.operators if op.uid == uid)


def test_the_stored_max_parallelism_holds_where_none_was_set() -> None:
    chain, operator = of(stored(keyed, 64), "count")
    assert (chain.parallelism, operator.max_parallelism) == (4, 64)
    _, operator = of(stored(lambda env: keyed(env).set_max_parallelism(128), 64), "count")
    assert operator.max_parallelism == 128, "the coordinator refuses it, and names both"


def test_a_chain_wider_than_its_state_allows_gets_narrower_or_is_refused() -> None:
    chain, _ = of(stored(keyed, 3, lower=True), "count")
    assert chain.parallelism == 3
    with pytest.raises(GraphError, match=r"\(uid count\) cannot have parallelism 4: its max parallelism is 3"):
        stored(keyed, 3)
    with pytest.raises(GraphError, match="parallelism 4: its max parallelism is 3"):
        stored(lambda env: keyed(env).set_parallelism(4), 3, lower=True)
