"""Runs levels as Spark stages over byte strings. Only this module defines how parcels move through Spark.

Parcels move from level to level through Spark's pairwise shuffle, as a 64-bit key and opaque bytes. The partitioner
uses the lower half of the key (the target partition), and the sort inside each partition uses the whole key, so parcels
arrive in a partition in order. The sort runs in the JVM and spills to disk. Spark never sees a record.

Affinity: Spark assigns a task to any idle Python worker, so the warm state of a subtask would often be in another
process. Spark has a separate worker pool for each environment of the Python function. Partition i therefore runs in the
environment of *lane* i modulo the number of lanes, and always gets the same worker (docs/decisions/0001). On a cluster,
each lane has an executor that its tasks prefer (:mod:`tidemill.spark.jobs.placement`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from pyspark import SparkContext
from pyspark.core.rdd import RDD, _wrap_function
from pyspark.serializers import NoOpSerializer

from tidemill.spark.jobs.placement import Placement

#: Up to this width, each partition has its own entry in the union. Wider levels have one entry per lane, which is
#: cheaper to build.
_SINGLE: Final = 32
#: The number of jobs between two cleanups of unused functions. Batches of new widths need new functions, of a few
#: kilobytes each.
_KEPT_JOBS: Final = 100

LANE_VARIABLE: Final = "TIDEMILL_LANE"

_bytes = NoOpSerializer()
#: Guards the environment of the context, which all jobs share: a function gets the environment of its workers from it.
_environment = threading.Lock()


def partition_identity(key: int) -> int:
    """Identify Tidemill's partitioner: one module-level object, so that Spark treats equal partitioners as equal."""
    return key


class Recent:
    """A cache of objects, which are created once and kept as long as they are used from time to time."""

    def __init__(self) -> None:
        self._used: dict[Any, Any] = {}
        self._before: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._used.keys() | self._before.keys())

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the object for a key. If it does not exist, create it."""
        found = self._used.get(key)
        if found is None:
            found = self._before.get(key)
            self._used[key] = found = make() if found is None else found
        return found

    def forget_unused(self) -> None:
        """Discard the objects that were not used since the previous call."""
        self._before, self._used = self._used, {}


class StageBuilder:
    """Builds the stages of epochs. Everything that does not change from epoch to epoch is created once and cached."""

    def __init__(self, context: SparkContext, lanes: int, pool: str = "") -> None:
        """``pool`` names a separate set of lanes, whose workers are not shared with other lanes."""
        self._context = context
        jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        # A class lookup calls the JVM once per part of its name, which would be half the cost of building the stages.
        self._python_rdd = jvm.PythonRDD
        self._pairwise_rdd = jvm.PairwiseRDD
        self._pruning_rdd = jvm.org.apache.spark.rdd.PartitionPruningRDD
        self._python_partitioner = jvm.PythonPartitioner
        self._java_rdd = jvm.org.apache.spark.api.java.JavaRDD
        self._array_list = jvm.java.util.ArrayList
        self._to_seq = jvm.PythonUtils.toSeq
        self._lanes = max(1, lanes)
        self._pool = pool
        self._placement = Placement(context)
        self._functions = Recent()
        self._partitioners = Recent()
        self._sets = Recent()
        self._jobs = 0
        self._shuffles: list[Any] = []
        cleaner = context._jsc.sc().cleaner()
        self._cleaner: Any = cleaner.get() if cleaner.isDefined() else None

    @property
    def cores(self) -> int:
        """The number of tasks that the cluster can run at the same time; 0 if it is unknown or there is no cluster."""
        return self._placement.cores

    def settle(self, lanes: int, used: Collection[int], leave: Callable[[list[int]], None]) -> None:
        """Set the number of lanes, and distribute the lanes in ``used`` over the executors.

        ``leave`` is called first with the lanes, if any, that move from one executor to another.
        """
        self._lanes = lanes
        self._placement.settle(used, leave)

    def apply(
        self,
        source: Any,
        width: int,
        first: int,
        name: tuple[Any, ...],
        make: Callable[[tuple[int, ...]], Any],
        homes: Sequence[int] = (),
    ) -> list[Any]:
        """Return Java RDDs that apply a function to each partition of a Java RDD of byte strings, in its lane.

        Partition i of ``source`` is partition ``first + i`` of its level. ``make`` builds the function for the
        partitions of one entry; ``name`` identifies it across epochs. ``homes`` contains the lane of each partition,
        modulo the number of lanes. By default it is the number of the partition.
        """
        applied = []
        lanes = [home % self._lanes for home in homes or range(first, first + width)]
        for indexes in self._entries(lanes):
            targets = tuple(first + index for index in indexes)
            lane = lanes[indexes[0]]
            function = self._function((*name, targets), lane, partial(make, targets))
            part = source if len(indexes) == width else self._pruned(source, indexes)
            part = self._placement.anchored(part, lane)
            applied.append(self._python_rdd(part, function, False, False))
        return applied

    def exchange(self, parts: Sequence[Any], width: int) -> Any:
        """Move the parcels of ``parts`` to their target partitions and sort them; returns one Java RDD."""
        pairs = self._pairwise_rdd(self.union(parts)).asJavaPairRDD()
        partitioner = self._partitioners.get(width, lambda: self._python_partitioner(width, id(partition_identity)))
        shuffled = pairs.repartitionAndSortWithinPartitions(partitioner)
        self._shuffles.append(shuffled)
        return self._python_rdd.valueOfPair(shuffled).rdd()

    def collect(self, parts: Sequence[Any]) -> list[bytes]:
        """Run the job that ends in ``parts`` and return their elements to the driver."""
        try:
            collected: list[bytes] = RDD(self.union(parts).toJavaRDD(), self._context, _bytes).collect()
        finally:
            self._forget_shuffles()
            self._forget_unused()
        return collected

    def _forget_shuffles(self) -> None:
        """Let Spark delete the shuffle files of a finished job now, not at the next garbage collection of the JVM."""
        for shuffled in self._shuffles:
            if self._cleaner is not None:
                self._cleaner.doCleanupShuffle(shuffled.rdd().dependencies().apply(0).shuffleId(), False)
        self._shuffles.clear()

    def _forget_unused(self) -> None:
        self._jobs += 1
        if self._jobs % _KEPT_JOBS == 0:
            for kept in (self._functions, self._partitioners, self._sets):
                kept.forget_unused()

    def scatter(self, items: Sequence[bytes]) -> Any:
        """Create a Java RDD with one byte string per partition."""
        values = self._array_list()
        for item in items:
            values.add(bytearray(item))
        return self._context._jsc.parallelize(values, len(items)).rdd()

    def union(self, parts: Sequence[Any]) -> Any:
        """Combine several Java RDDs into one, with their partitions in order."""
        if len(parts) == 1:
            return parts[0]
        array = self._gateway.new_array(self._java_rdd, len(parts))
        for index, part in enumerate(parts):
            array[index] = part.toJavaRDD() if hasattr(part, "toJavaRDD") else part
        return self._context._jsc.union(array).rdd()

    def _entries(self, lanes: Sequence[int]) -> list[tuple[int, ...]]:
        if len(lanes) <= _SINGLE:
            return [(index,) for index in range(len(lanes))]
        by_lane: dict[int, list[int]] = {}
        for index, lane in enumerate(lanes):
            by_lane.setdefault(lane, []).append(index)
        return [tuple(indexes) for indexes in by_lane.values()]

    def _function(self, name: tuple[Any, ...], lane: int, make: Callable[[], Any]) -> Any:
        return self._functions.get((*name, lane), lambda: self._wrapped(lane, make()))

    def _wrapped(self, lane: int, function: Any) -> Any:
        context = self._context
        with _environment:
            context.environment[LANE_VARIABLE] = f"{self._pool}{lane}"
            try:
                return _wrap_function(context, function, _bytes, _bytes)
            finally:
                del context.environment[LANE_VARIABLE]

    def _pruned(self, source: Any, indexes: tuple[int, ...]) -> Any:
        # A Scala set of partition indexes is the predicate that pruning requires.
        wanted = self._sets.get(indexes, lambda: self._to_seq(list(indexes)).toSet())
        return self._pruning_rdd.create(source, wanted)
