"""Which executor a lane belongs to, while executors come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.spark.jobs import placement
from tidemill.spark.jobs.placement import Placement, assign_lanes
from tidemill.spark.session.cluster import Executor


def test_lanes_are_spread_evenly_and_stay_where_they_are() -> None:
    first = assign_lanes(range(5), ["a", "b"], {})
    assert Counter(first.values()) == {"a": 3, "b": 2}
    assert assign_lanes(range(5), ["a", "b"], first) == first
    without = assign_lanes(range(5), ["b"], first)
    assert set(without.values()) == {"b"}
    grown = assign_lanes(range(4), ["b", "c"], dict.fromkeys(range(4), "b"))
    assert Counter(grown.values()) == {"b": 2, "c": 2}
    assert assign_lanes(range(3), [], first) == {}


def test_only_lanes_in_use_count() -> None:
    """A job with three subtasks on one executor has lanes 0 to 2 of many; an executor that comes gets some of those."""
    before = dict.fromkeys(range(9), "a")
    grown = assign_lanes([0, 1, 2], ["a", "b"], before)
    assert Counter(grown[lane] for lane in range(3)) == {"a": 2, "b": 1}
    assert {grown[lane] for lane in range(3, 9)} == {"a"}, "what waits there is closed there"
    assert assign_lanes([0, 1, 2], ["b"], grown) == dict.fromkeys(range(3), "b")


def test_a_third_executor_gets_a_lane_though_the_others_have_no_more_than_two() -> None:
    grown = assign_lanes(range(4), ["a", "b", "c"], {0: "a", 1: "a", 2: "b", 3: "b"})
    assert Counter(grown.values()) == {"a": 2, "b": 1, "c": 1}


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@given(st.lists(st.tuples(st.frozensets(st.integers(0, 20)), NAMES), min_size=1, max_size=6))
def test_whoever_comes_and_goes_all_have_their_share_and_no_more_move_than_must(
    steps: list[tuple[frozenset[int], list[str]]],
) -> None:
    homes: dict[int, str] = {}
    for used, executors in steps:
        before, homes = homes, assign_lanes(used, executors, homes)
        if not executors:
            assert homes == {}
            continue
        load = Counter(homes[lane] for lane in used)
        assert max(load[name] for name in executors) - min(load[name] for name in executors) <= 1
        assert set(homes.values()) <= set(executors)
        had = Counter(before[lane] for lane in used if before.get(lane) in executors)
        fair, over = divmod(len(used), len(executors))
        most = sorted((had[name] for name in executors), reverse=True)
        can_stay = sum(min(count, fair + (at < over)) for at, count in enumerate(most))
        assert sum(before.get(lane) == homes[lane] for lane in used) == can_stay
        assert assign_lanes(used, executors, homes) == homes


class Cluster:
    """Executors that come and go, each look at them a long time after the one before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.executors: list[str] = []
        monkeypatch.setattr(placement, "is_clustered", lambda context: True)
        monkeypatch.setattr(placement, "executors_of", lambda context: [Executor(i, "h", 2) for i in self.executors])
        monkeypatch.setattr(placement, "_REFRESH_SECONDS", 0.0)
        monkeypatch.setattr(Placement, "_anchor", lambda self, executor: Anchor(executor))


class Anchor:
    """Stands for the RDDs of Java: what is anchored is the name of the executor."""

    def __init__(self, executor: str) -> None:
        self.executor = executor

    def cartesian(self, source: Any) -> Anchor:
        return self

    def values(self) -> Anchor:
        return self

    def rdd(self) -> str:
        return self.executor.rpartition("_")[2]

    def toJavaRDD(self) -> Anchor:
        return self


def homes(placed: Placement, *lanes: int) -> list[Any]:
    source = Anchor("nowhere")
    found = [placed.anchored(source, lane) for lane in lanes]
    return [None if one is source else one for one in found]


def test_lanes_are_left_before_they_move_and_only_while_their_executor_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    placed = Placement(None)  # type: ignore[arg-type]
    left: list[tuple[list[int], list[Any]]] = []

    def leave(lanes: list[int]) -> None:
        left.append((lanes, homes(placed, *lanes)))

    placed.settle({0, 1}, leave)
    assert homes(placed, 0, 1) == [None, None], "nobody is there yet"
    cluster.executors = ["1"]
    placed.settle({0, 1}, leave)
    assert (homes(placed, 0, 1), left) == (["1", "1"], [])
    cluster.executors = ["1", "2"]
    placed.settle({0, 1}, leave)
    assert (homes(placed, 0, 1), left) == (["1", "2"], [([1], ["1"])])
    cluster.executors = ["2"]
    placed.settle({0, 1}, leave)
    assert (homes(placed, 0, 1), len(left)) == (["2", "2"], 1), "there is nothing to close where nobody lives"
    assert placed.cores == 2


def test_a_lane_that_is_not_settled_gets_a_home_and_moves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.executors = ["1"]
    placed = Placement(None)  # type: ignore[arg-type]
    assert homes(placed, 0, 1) == ["1", "1"]
    cluster.executors = ["1", "2"]
    assert homes(placed, 5, 0, 1, 5) == ["2", "1", "1", "2"]
