"""Assigns lanes to executors: on a cluster, the warm state of a subtask exists only on one executor.

Spark assigns a task to any executor with a free core. With a preferred location, the task waits briefly
(``spark.locality.wait``) for the executor that has the state. If that executor is busy or lost, another one restores
the state first, which is slower but correct.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark import SparkContext

from tidemill.spark.session.cluster import Executor, executors_of, is_clustered

#: The executors of a cluster rarely change, and a request to Spark for the list takes some milliseconds.
_REFRESH_SECONDS: Final = 2.0


def assign_lanes(used: Iterable[int], executors: Sequence[str], before: Mapping[int, str]) -> dict[int, str]:
    """Assign an executor to each lane in use, evenly (within one). A lane stays on its executor if that remains even.

    Lanes that are no longer in use do not count, and keep their executor: their warm chains are closed there.

    >>> assign_lanes(range(4), ["1", "2"], {})
    {0: '1', 1: '2', 2: '1', 3: '2'}
    >>> assign_lanes([0, 1], ["1", "2"], {0: "1", 1: "1", 2: "1", 3: "2"})
    {0: '1', 1: '2', 2: '1', 3: '2'}
    """
    if not executors:
        return {}
    lanes = sorted(used)
    fair, over = divmod(len(lanes), len(executors))
    had = Counter(before.get(lane) for lane in lanes)
    # If lanes do not divide evenly, the executors that had the most keep one more, so that as few as possible move.
    room = dict.fromkeys(executors, fair)
    for executor in sorted(executors, key=lambda name: -had[name])[:over]:
        room[executor] += 1
    assigned: dict[int, str] = {}
    for lane in lanes:
        home = before.get(lane)
        if home is not None and room.get(home):
            assigned[lane] = home
            room[home] -= 1
    for lane in lanes:
        if lane not in assigned:
            executor = max(executors, key=lambda name: room[name])
            assigned[lane] = executor
            room[executor] -= 1
    unused = {lane: home for lane, home in before.items() if lane not in assigned and home in room}
    return dict(sorted((assigned | unused).items()))


class Placement:
    """The executor of each lane, updated as executors join and leave. It has no effect on a single machine."""

    def __init__(self, context: SparkContext) -> None:
        # configuration
        self._context = context
        # If all tasks run in one process, there is no choice.
        self._clustered = is_clustered(context)
        # transient
        self._executors: list[Executor] = []
        self._used: frozenset[int] = frozenset()
        self._assigned: dict[int, str] = {}
        self._anchors: dict[str, Any] = {}
        self._looked = 0.0

    @property
    def cores(self) -> int:
        """The number of tasks that can run at the same time on the executors known at the last update; 0 if unknown."""
        return sum(executor.cores for executor in self._executors)

    def settle(self, used: Collection[int], leave: Callable[[list[int]], None]) -> None:
        """Update the list of executors, and distribute the lanes in ``used`` over them.

        ``leave`` is called with the lanes, if any, that move to another executor while their former one is alive.
        During the call they are still assigned to the former one.
        """
        if not self._clustered or (not self._look() and used == self._used):
            return
        self._used = frozenset(used)
        living = self._living()
        assigned = assign_lanes(used, living, self._assigned)
        moved = [lane for lane, home in self._assigned.items() if home in living and assigned[lane] != home]
        if moved:
            leave(moved)
        self._assigned = assigned
        self._anchors = {home: anchor for home, anchor in self._anchors.items() if home in living}

    def anchored(self, source: Any, lane: int) -> Any:
        """Return a Java RDD with the same elements, whose tasks prefer the executor of the lane, if it has one."""
        executor = self._assigned.get(lane) or self._first_home(lane)
        if executor is None:
            return source
        # The product with an RDD of one element has all elements of the other RDD, and the preferences of both.
        return self._anchor(executor).cartesian(source.toJavaRDD()).values().rdd()

    def _first_home(self, lane: int) -> str | None:
        """Assign an executor to a new lane, as for commits before the first epoch, without moving other lanes."""
        if not self._clustered:
            return None
        self._look()
        load = Counter(self._assigned.values())
        home = min(self._living(), key=lambda name: load[name], default=None)
        if home is not None:
            self._assigned[lane] = home
        return home

    def _look(self) -> bool:
        """Update the list of executors, unless it is recent. Returns whether it was updated."""
        now = time.monotonic()
        if now - self._looked < _REFRESH_SECONDS:
            return False
        self._looked = now
        self._executors = executors_of(self._context)
        return True

    def _living(self) -> list[str]:
        return [executor.location for executor in self._executors]

    def _anchor(self, executor: str) -> Any:
        anchor = self._anchors.get(executor)
        if anchor is None:
            jvm: Any = self._context._jvm
            element = jvm.scala.Tuple2("", jvm.PythonUtils.toSeq([executor]))
            tags = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
            rdd = self._context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq([element]), tags.AnyRef())
            anchor = self._anchors[executor] = rdd.toJavaRDD()
        return anchor
