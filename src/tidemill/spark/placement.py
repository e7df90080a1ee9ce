"""Which executor a slot belongs to: on a cluster a subtask finds its warm state again only on its own executor.

Spark gives a task to any executor with a free core. A preferred location makes it wait a moment
(``spark.locality.wait``) for the one that holds the state; if that is busy or gone, another one starts cold, which is
slower but right.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark import SparkContext

from tidemill.spark.cluster import Executor, executors_of, is_clustered

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
    most = -(-len(slots) // len(executors))
    load: Counter[str] = Counter(dict.fromkeys(executors, 0))
    assigned: dict[int, str] = {}
    for slot in slots:
        home = before.get(slot)
        if home is not None and home in load and load[home] < most:
            assigned[slot] = home
            load[home] += 1
    for slot in slots:
        if slot not in assigned:
            executor = min(executors, key=lambda name: load[name])
            assigned[slot] = executor
            load[executor] += 1
    unused = {slot: home for slot, home in before.items() if slot not in assigned and home in load}
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

    def settle(self, used: Collection[int]) -> None:
        """Look which executors there are, and spread the slots over them that are in use from now on."""
        if not self._clustered:
            return
        now = time.monotonic()
        if now - self._looked >= _REFRESH_SECONDS:
            self._looked = now
            self._executors = executors_of(self._context)
        elif used == self._used:
            return
        self._used = frozenset(used)
        self._assigned = assign_slots(used, [executor.location for executor in self._executors], self._assigned)

    def anchored(self, source: Any, slot: int) -> Any:
        """A Java RDD with the same elements, whose tasks prefer the executor of the slot."""
        if not self._clustered:
            return source
        self.settle(self._used if slot in self._assigned else self._used | {slot})
        executor = self._assigned.get(slot)
        if executor is None:
            return source
        # The product with an RDD of one element has all elements of the other, and the preferences of both.
        return self._anchor(executor).cartesian(source.toJavaRDD()).values().rdd()

    def _anchor(self, executor: str) -> Any:
        anchor = self._anchors.get(executor)
        if anchor is None:
            jvm: Any = self._context._jvm
            element = jvm.scala.Tuple2("", jvm.PythonUtils.toSeq([executor]))
            tags = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
            rdd = self._context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq([element]), tags.AnyRef())
            anchor = self._anchors[executor] = rdd.toJavaRDD()
        return anchor
