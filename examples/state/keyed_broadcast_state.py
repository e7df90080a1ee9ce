"""Broadcast state with keyed state: rules that apply to all users, including to their earlier purchases.

The order of the two inputs is not guaranteed. A purchase is checked against the rules received so far; a new rule is
checked against the current sums of all users. Each user is therefore reported once per rule, in any order of arrival.

Run it with ``python -m examples.state.keyed_broadcast_state``; ``--target local`` runs it in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import KeyedBroadcastProcessFunction, MapStateDescriptor, RuntimeContext, ValueStateDescriptor

PURCHASES = [("ann", 30), ("bob", 80), ("ann", 40), ("cem", 20), ("bob", 90), ("ann", 50)]
RULES = [("silver", 60), ("gold", 150)]  # name, and the sum to exceed
RULE_STATE = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
SUM_STATE = ValueStateDescriptor("sum", Types.LONG(), 0)


class Passed(KeyedBroadcastProcessFunction):
    """Reports which user exceeded which limit."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(SUM_STATE)

    def process_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, str]]:
        before = self.sum.value()
        self.sum.update(before + value[1])
        for name, limit in ctx.get_broadcast_state(RULE_STATE).items():
            if before <= limit < before + value[1]:
                yield name, value[0]

    def process_broadcast_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterator[tuple[str, str]]:
        name, limit = value
        ctx.get_broadcast_state(RULE_STATE).put(name, limit)
        sums: dict[str, int] = {}

        def look(user: str, state: Any) -> None:
            sums[user] = state.value()

        ctx.apply_to_keyed_state(SUM_STATE, look)  # all users of this subtask
        yield from ((name, user) for user in sums if sums[user] > limit)


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    rules = env.from_collection(RULES).broadcast(RULE_STATE)
    passed = env.from_collection(PURCHASES).key_by(0).connect(rules).process(Passed()).uid("passed")
    for rule, user in sorted(passed.execute_and_collect("keyed broadcast state")):
        print(f"{user} has passed {rule}")


if __name__ == "__main__":
    main()
