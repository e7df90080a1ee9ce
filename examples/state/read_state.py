"""Reading state as data: a job counts words, and its committed state is then read as an Arrow table.

It does not matter whether the job is running: reading claims and changes nothing. This works for any job directory.

Run it with ``python -m examples.state.read_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill import state_processor
from tidemill.common import Types
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, ValueStateDescriptor

TEXT = "the tide comes in the tide goes out and in and out the mill turns"


class Count(KeyedProcessFunction):
    """Counts words, and emits nothing: the state is the result."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.count.update(self.count.value() + 1)
        yield from ()


def main(arguments: Sequence[str] | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"execution.checkpointing.dir": folder, "execution.job-id": "words"}
        env = environment(__doc__, arguments, settings)
        env.from_collection(TEXT.split()).key_by(lambda word: word, Types.STRING()).process(Count()).uid("count")
        env.execute("read state")

        state = state_processor.read(folder, job_id="words")
        for operator in state.operators():
            print(operator.uid, [(info.name, info.kind, info.types) for info in operator.states])
        print("the:", state.get("count", "count", "the"))  # reads only the key group of this key
        table = state.keyed_state("count", "count").sort_by([("value", "descending"), ("key", "ascending")])
        for row in table.slice(0, 3).to_pylist():
            print(row)


if __name__ == "__main__":
    main()
