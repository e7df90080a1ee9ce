"""Levels as Spark stages over byte strings: the one module that knows how parcels move through Spark.

Parcels cross from level to level by Spark's pairwise shuffle: a 64-bit key and opaque bytes. The partitioner looks at
the key's lower half (the target partition), the sort inside each partition at the whole key, so parcels of a partition
arrive by their order; the sort runs in the JVM and spills to disk. No record is ever seen by Spark.

Affinity. Spark hands a task to any idle Python worker, so a subtask's warm state would be in the wrong process half of
the time. Worker pools are separate for each environment of the Python function: partition i therefore runs under the
environment of *slot* i modulo the number of slots, and finds its own worker again (docs/decisions/0001). On a cluster
each slot has an executor that its tasks prefer (:mod:`tidemill.spark.jobs.placement`).
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

#: Partitions get a union entry each up to here; wider levels share one entry per slot, which is cheaper to build.
_SINGLE: Final = 32
#: Jobs between two looks for what is not used any more: wide batches of ever new widths need ever new functions, of a
#: few kilobytes each.
_KEPT_JOBS: Final = 100

SLOT_VARIABLE: Final = "TIDEMILL_SLOT"

_bytes = NoOpSerializer()
#: A function takes the environment of its workers from the context it is made in, which all jobs share.
_environment = threading.Lock()


def partition_identity(key: int) -> int:
    """Stands for our partitioner: one module-level object, so that Spark sees equal partitioners as equal."""
    return key


class Recent:
    """Things that are made once and kept for as long as they are used now and then."""

    def __init__(self) -> None:
        self._used: dict[Any, Any] = {}
        self._before: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._used.keys() | self._before.keys())

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is kept under a key, made if it is not there."""
        found = self._used.get(key)
        if found is None:
            found = self._before.get(key)
            self._used[key] = found = make() if found is None else found
        return found

    def forget_unused(self) -> None:
        """Let go of what was not asked for since the last call."""
        self._before, self._used = self._used, {}


class StageBuilder:
    """Builds the stages of epochs; everything that does not change from epoch to epoch is made once and kept."""

    def __init__(self, context: SparkContext, slots: int, pool: str = "") -> None:
        """``pool`` names slots of their own, whose workers nobody else uses."""
        self._context = context
        jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        # Looking a class up asks the JVM once per part of its name: half of what building an epoch's stages would cost.
        self._python_rdd = jvm.PythonRDD
        self._pairwise_rdd = jvm.PairwiseRDD
        self._pruning_rdd = jvm.org.apache.spark.rdd.PartitionPruningRDD
        self._python_partitioner = jvm.PythonPartitioner
        self._java_rdd = jvm.org.apache.spark.api.java.JavaRDD
        self._array_list = jvm.java.util.ArrayList
        self._to_seq = jvm.PythonUtils.toSeq
        self._slots = max(1, slots)
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
        """How many tasks the cluster can run at the same time; 0 if that is not known, as where there is none."""
        return self._placement.cores

    def settle(self, slots: int, used: Collection[int], leave: Callable[[list[int]], None]) -> None:
        """From now on there are so many slots, of which these are in use: those are spread over the executors.

        ``leave`` is called first with those, if there are any, that go from one executor to another.
        """
        self._slots = slots
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
        """Java RDDs that apply a function to each partition of a Java RDD of byte strings, in their slots.

        Partition i of ``source`` is partition ``first + i`` of its level. ``make`` builds the function for the
        partitions of one entry; ``name`` identifies it over epochs. ``homes`` gives each partition's slot, modulo the
        number of slots; by default it is the partition itself.
        """
        applied = []
        slots = [home % self._slots for home in homes or range(first, first + width)]
        for indexes in self._entries(slots):
            targets = tuple(first + index for index in indexes)
            slot = slots[indexes[0]]
            function = self._function((*name, targets), slot, partial(make, targets))
            part = source if len(indexes) == width else self._pruned(source, indexes)
            part = self._placement.anchored(part, slot)
            applied.append(self._python_rdd(part, function, False, False))
        return applied

    def exchange(self, parts: Sequence[Any], width: int) -> Any:
        """The parcels that ``parts`` yield, moved to their target partitions and sorted, as one Java RDD."""
        pairs = self._pairwise_rdd(self.union(parts)).asJavaPairRDD()
        partitioner = self._partitioners.get(width, lambda: self._python_partitioner(width, id(partition_identity)))
        shuffled = pairs.repartitionAndSortWithinPartitions(partitioner)
        self._shuffles.append(shuffled)
        return self._python_rdd.valueOfPair(shuffled).rdd()

    def collect(self, parts: Sequence[Any]) -> list[bytes]:
        """Run the job that ends in ``parts`` and bring what they yield to the driver."""
        try:
            collected: list[bytes] = RDD(self.union(parts).toJavaRDD(), self._context, _bytes).collect()
        finally:
            self._forget_shuffles()
            self._forget_unused()
        return collected

    def _forget_shuffles(self) -> None:
        """Let Spark delete the shuffle files of a finished job now, not when the JVM happens to collect its garbage."""
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
        """A Java RDD with one byte string per partition."""
        values = self._array_list()
        for item in items:
            values.add(bytearray(item))
        return self._context._jsc.parallelize(values, len(items)).rdd()

    def union(self, parts: Sequence[Any]) -> Any:
        """Several Java RDDs as one, their partitions in order."""
        if len(parts) == 1:
            return parts[0]
        array = self._gateway.new_array(self._java_rdd, len(parts))
        for index, part in enumerate(parts):
            array[index] = part.toJavaRDD() if hasattr(part, "toJavaRDD") else part
        return self._context._jsc.union(array).rdd()

    def _entries(self, slots: Sequence[int]) -> list[tuple[int, ...]]:
        if len(slots) <= _SINGLE:
            return [(index,) for index in range(len(slots))]
        by_slot: dict[int, list[int]] = {}
        for index, slot in enumerate(slots):
            by_slot.setdefault(slot, []).append(index)
        return [tuple(indexes) for indexes in by_slot.values()]

    def _function(self, name: tuple[Any, ...], slot: int, make: Callable[[], Any]) -> Any:
        return self._functions.get((*name, slot), lambda: self._wrapped(slot, make()))

    def _wrapped(self, slot: int, function: Any) -> Any:
        context = self._context
        with _environment:
            context.environment[SLOT_VARIABLE] = f"{self._pool}{slot}"
            try:
                return _wrap_function(context, function, _bytes, _bytes)
            finally:
                del context.environment[SLOT_VARIABLE]

    def _pruned(self, source: Any, indexes: tuple[int, ...]) -> Any:
        # A Scala set of partition indexes is the predicate that pruning asks for.
        wanted = self._sets.get(indexes, lambda: self._to_seq(list(indexes)).toSet())
        return self._pruning_rdd.create(source, wanted)
