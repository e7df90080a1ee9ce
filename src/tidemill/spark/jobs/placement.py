"""Which executor a slot belongs to: on a cluster a subtask finds its warm state again only on its own executor.

Spark gives a task to any executor with a free core. A preferred location makes it wait a moment
(``spark.locality.wait``) for the one that holds the state; if that is busy or gone, another one starts cold, which is
slower but right.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark import SparkContext

from tidemill.spark.session.cluster import Executor, executors_of, is_clustered

#: Executors come and go rarely, and asking Spark for them costs some milliseconds.
_REFRESH_SECONDS: Final = 2.0


def assign_slots(used: Iterable[int], executors: Sequence[str], before: Mapping[int, str]) -> dict[int, str]:
    """Give each slot in use an executor, evenly (within one); a slot stays where it is as long as that is fair.

    Slots that are not in use any more count for nothing, and stay too: what waits in their workers is closed there.

    >>> assign_slots(range(4), ["1", "2"], {})
    {0: '1', 1: '2', 2: '1', 3: '2'}
    >>> assign_slots([0, 1], ["1", "2"], {0: "1", 1: "1", 2: "1", 3: "2"})
    {0: '1', 1: '2', 2: '1', 3: '2'}
    """
    if not executors:
        return {}
    slots = sorted(used)
    fair, over = divmod(len(slots), len(executors))
    had = Counter(before.get(slot) for slot in slots)
    # Where they do not divide evenly, those who had most keep one more: so the fewest move.
    room = dict.fromkeys(executors, fair)
    for executor in sorted(executors, key=lambda name: -had[name])[:over]:
        room[executor] += 1
    assigned: dict[int, str] = {}
    for slot in slots:
        home = before.get(slot)
        if home is not None and room.get(home):
            assigned[slot] = home
            room[home] -= 1
    for slot in slots:
        if slot not in assigned:
            executor = max(executors, key=lambda name: room[name])
            assigned[slot] = executor
            room[executor] -= 1
    unused = {slot: home for slot, home in before.items() if slot not in assigned and home in room}
    return dict(sorted((assigned | unused).items()))


class Placement:
    """The home of each slot, kept up to date with the executors Spark has; nothing on a single machine."""

    def __init__(self, context: SparkContext) -> None:
        # configuration
        self._context = context
        # Where all tasks run in one process there is nothing to choose.
        self._clustered = is_clustered(context)
        # transient
        self._executors: list[Executor] = []
        self._used: frozenset[int] = frozenset()
        self._assigned: dict[int, str] = {}
        self._anchors: dict[str, Any] = {}
        self._looked = 0.0

    @property
    def cores(self) -> int:
        """How many tasks can run at the same time on the executors that were there at the last look; 0 if unknown."""
        return sum(executor.cores for executor in self._executors)

    def settle(self, used: Collection[int], leave: Callable[[list[int]], None]) -> None:
        """Look which executors there are, and spread the slots over them that are in use from now on.

        ``leave`` is called with the slots, if there are any, that go to another executor while theirs lives; they
        still have the former one then.
        """
        if not self._clustered or (not self._look() and used == self._used):
            return
        self._used = frozenset(used)
        living = self._living()
        assigned = assign_slots(used, living, self._assigned)
        moved = [slot for slot, home in self._assigned.items() if home in living and assigned[slot] != home]
        if moved:
            leave(moved)
        self._assigned = assigned
        self._anchors = {home: anchor for home, anchor in self._anchors.items() if home in living}

    def anchored(self, source: Any, slot: int) -> Any:
        """A Java RDD with the same elements, whose tasks prefer the executor of the slot, if it has one."""
        executor = self._assigned.get(slot) or self._first_home(slot)
        if executor is None:
            return source
        # The product with an RDD of one element has all elements of the other, and the preferences of both.
        return self._anchor(executor).cartesian(source.toJavaRDD()).values().rdd()

    def _first_home(self, slot: int) -> str | None:
        """A home for a slot that is not settled, as for commits before the first epoch: no other moves for it."""
        if not self._clustered:
            return None
        self._look()
        load = Counter(self._assigned.values())
        home = min(self._living(), key=lambda name: load[name], default=None)
        if home is not None:
            self._assigned[slot] = home
        return home

    def _look(self) -> bool:
        """See which executors there are, unless that was done a moment ago; whether it was not."""
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
