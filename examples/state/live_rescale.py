"""Live rescaling: changes the parallelism of a running job. Keys move to other subtasks together with their state.

Run it with ``python -m examples.state.live_rescale``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill import state_processor
from tidemill.common import Types
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, ValueStateDescriptor

KEYS = 7


class Count(KeyedProcessFunction):
    """Counts records, and emits nothing: the state is the result."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.count.update(self.count.value() + 1)
        yield from ()


def main(arguments: Sequence[str] | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pace = {"execution.epoch.max-records": "200", "execution.epoch.min-interval": "100 ms"}
        env = environment(__doc__, arguments, {"execution.checkpointing.dir": folder, **pace})
        env.from_sequence(1, 10**9).key_by(lambda n: n % KEYS, Types.LONG()).process(Count()).uid("count")
        job = env.execute_async("live rescale")
        for width in (4, 3):
            job.rescale({"count": width}).result()  # returns when the first epoch with this parallelism is committed
            (operator,) = state_processor.read(folder).operators()
            print(f"{operator.uid} runs in {operator.parallelism} subtasks")
        job.cancel().result()
        rows = state_processor.read(folder).keyed_state("count", "count").to_pylist()
        counts = {row["key"]: row["value"] for row in rows}
        last = sum(counts.values())
        right = counts == {key: len(range(key or KEYS, last + 1, KEYS)) for key in range(KEYS)}
        print(f"each number was counted once, for {len(counts)} keys: {right}")


if __name__ == "__main__":
    main()
