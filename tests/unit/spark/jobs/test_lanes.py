"""Which lanes the subtasks of a job have, and that nothing waits in those that they leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.runtime.plans import bundle
from tests.unit.runtime.task.test_warm import CLOSED, CONTEXT, KEYED, PLAN, STATELESS, build, open_chain, previous
from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.task.chain import Chain
from tidemill.runtime.task.commit_task import OpenCommitters
from tidemill.runtime.task.warm import WarmChains
from tidemill.spark.jobs import engine, worker
from tidemill.spark.jobs.engine import SparkEngine
from tidemill.spark.jobs.worker import RetireFunction

WIDTH = 4


class Stages:
    """Notes in which lanes functions run; a cluster of ``cores``, which releases what it should."""

    def __init__(self, context: Any, lanes: int, pool: str = "") -> None:
        self.cores = 0
        self.lanes = lanes
        self.moving: list[int] = []
        self.used: Collection[int] = ()
        self.ran: list[tuple[str, list[int]]] = []

    def settle(self, lanes: int, used: Collection[int], leave: Callable[[list[int]], None]) -> None:
        self.lanes, self.used = lanes, set(used)
        if self.moving:
            leave(self.moving)

    def apply(
        self, source: Any, width: int, first: int, name: tuple[Any, ...], make: Any, homes: Sequence[int] = ()
    ) -> list[Any]:
        assert all(home < self.lanes for home in homes), "two lanes would be one"
        self.ran.append((name[0], list(homes)))
        return []

    def collect(self, parts: Any) -> list[bytes]:
        return []

    def scatter(self, items: Any) -> None:
        return None

    def exchange(self, parts: Any, width: int) -> None:
        return None


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[SparkEngine, Stages]:
    monkeypatch.setattr(engine, "StageBuilder", Stages)
    spark = SimpleNamespace(
        broadcast=lambda value: None, getLocalProperty=lambda key: None, setLocalProperty=lambda key, value: None
    )
    made = SparkEngine(spark, bundle(build, LocalStorage(tmp_path)), cores=2)  # type: ignore[arg-type]
    stages: Any = made._stages
    return made, stages


def run(job: tuple[SparkEngine, Stages]) -> list[list[int]]:
    """The lanes in which an epoch closes what waits there."""
    job[1].ran.clear()
    context = EpochContext("unit", "lineage", Epoch(2), 0, None, 0, (WIDTH,) * len(PLAN.chains))
    job[0].run_epoch(context, EpochInput({}))
    return [homes for name, homes in job[1].ran if name == "retire"]


def test_more_cores_give_subtasks_other_lanes_and_nothing_waits_in_those_they_had(
    job: tuple[SparkEngine, Stages],
) -> None:
    _, stages = job
    assert run(job) == []
    before = set(stages.used)
    assert before - set(range(16)) == {16, 17}, "four subtasks without state keep to lanes of their own"
    stages.cores = 4
    assert run(job) == [[16, 17]]
    assert set(stages.used) == before - {16, 17}
    assert run(job) == []
    stages.cores = 2
    assert run(job) == [], "what is gone may come back"


def test_lanes_that_move_are_left_first(job: tuple[SparkEngine, Stages]) -> None:
    run(job)
    job[1].moving = [1, 3]
    assert run(job) == [[1, 3]]


def test_what_waits_in_a_lane_that_was_left_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    CLOSED.clear()
    warm, forgotten = WarmChains(), []

    def close(chain: Chain, *, forget: bool = False) -> None:
        forgotten.append(forget)
        closing(chain, forget=forget)

    closing = Chain.close
    monkeypatch.setattr(Chain, "close", close)
    for plan in (STATELESS, KEYED):
        warm.keep("unit", open_chain(plan), previous(), "one")
    process = SimpleNamespace(warm=warm, committers=OpenCommitters(), settle=lambda: None)
    monkeypatch.setattr(worker, "_process", process)
    monkeypatch.setattr(worker, "epoch_context", lambda: CONTEXT)
    for _ in range(2):
        assert list(RetireFunction("other")(0, [])) == []
    assert CLOSED == []
    for _ in range(2):
        assert list(RetireFunction("unit")(0, [])) == []
    assert CLOSED == ["closed"]
    assert forgotten == [False, False], "who runs it now may find on local disk what it had"
