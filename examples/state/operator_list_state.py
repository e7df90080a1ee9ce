"""Operator list state: collects the events between two occurrences of event 1, and survives a failure.

The function keeps events in an attribute, which is fast but not state, and copies it into state at each barrier.

Run it with ``python -m examples.state.operator_list_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import RestartStrategies, Types
from tidemill.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListStateDescriptor,
)

EVENTS = [1, 2, 3, 4, 5, 1, 3, 4, 5, 6, 7, 1, 4, 5, 3, 9, 9, 2, 1]


class Between(FlatMapFunction, CheckpointedFunction):
    """Emits the events between two occurrences of event 1, with their number. Fails once, at the first event 9."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("between", Types.LONG())
        self.stored = context.get_operator_state_store().get_list_state(descriptor)
        self.events = list(self.stored.get())  # empty in a new job
        self.restored = context.is_restored()

    def flat_map(self, value: int) -> Iterator[str]:
        if value == 9 and not self.restored:
            raise RuntimeError("a deliberate failure, to show that nothing is lost")
        if value != 1:
            self.events.append(value)
        elif self.events:
            yield f"{len(self.events)}: {' '.join(map(str, self.events))}"
            self.events.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.events)


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments, {"execution.epoch.max-records": "4"})  # so that there are several barriers
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    # One subtask: "between two events" is meaningful only where all events are processed in sequence.
    between = env.from_collection(EVENTS).flat_map(Between()).uid("between").set_parallelism(1)
    for line in between.execute_and_collect("operator list state"):
        print(line)


if __name__ == "__main__":
    main()
