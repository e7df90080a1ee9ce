"""Union list state: each subtask stores the offsets of the partitions it has read, as a source does.

The job fails permanently, and is started again with three subtasks instead of two. Partitions then move to other
subtasks: each subtask receives the stored offsets of all subtasks, and keeps those of its own partitions.

Run it with ``python -m examples.state.union_list_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence

from examples.support.target import environment
from tidemill import state_processor
from tidemill.common import Types
from tidemill.datastream import (
    CheckpointedFunction,
    FilterFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListStateDescriptor,
    RuntimeContext,
)
from tidemill.errors import UserCodeError

MESSAGES = [(number % 5, number // 10) for number in range(80)]  # (partition, offset), each twice
OFFSETS = ListStateDescriptor("offsets", Types.TUPLE([Types.LONG(), Types.LONG()]))


class Once(FilterFunction, CheckpointedFunction):
    """Drops messages that were already read. Fails halfway through, unless it was restored."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.stored = context.get_operator_state_store().get_union_list_state(OFFSETS)
        self.restored = context.is_restored()

    def open(self, runtime_context: RuntimeContext) -> None:
        mine, width = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        self.offsets: dict[int, int] = {part: offset for part, offset in self.stored.get() if part % width == mine}

    def filter(self, value: tuple[int, int]) -> bool:
        partition, offset = value
        if offset == 5 and not self.restored:
            raise RuntimeError("halfway")
        if offset <= self.offsets.get(partition, -1):
            return False
        self.offsets[partition] = offset
        return True

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(list(self.offsets.items()))  # only the offsets of this subtask


def main(arguments: Sequence[str] | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = {"execution.checkpointing.dir": folder, "execution.job-id": "once", "execution.epoch.max-records": "20"}
        for width in (2, 3):
            env = environment(__doc__, arguments, job).set_parallelism(width)
            messages = env.from_collection(MESSAGES).uid("messages").partition_custom(lambda part, n: part % n, 0)
            messages.filter(Once()).uid("once")
            with contextlib.suppress(UserCodeError):
                env.execute("union list state")
            stored = state_processor.read(folder).operator_state("once", "offsets").to_pylist()
            for part, offset, subtask in sorted((*row["value"].values(), row["subtask"]) for row in stored):
                print(f"{width} subtasks: subtask {subtask} has read partition {part} up to {offset}")


if __name__ == "__main__":
    main()
