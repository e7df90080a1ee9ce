"""Map state: counts how often each user opened each page. Entries are read and written individually.

Run it with ``python -m examples.state.map_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import KeyedProcessFunction, MapStateDescriptor, RuntimeContext

CLICKS = [("ann", "/"), ("bob", "/"), ("ann", "/tea"), ("ann", "/"), ("bob", "/buy"), ("ann", "/buy"), ("bob", "/")]


class Visits(KeyedProcessFunction):
    """Reports the pages that a user visited before a purchase."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.visits = runtime_context.get_map_state(MapStateDescriptor("visits", Types.STRING(), Types.LONG()))

    def process_element(self, value: tuple[str, str], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        user, page = value
        if page == "/buy":
            seen = ", ".join(f"{count} x {seen}" for seen, count in sorted(self.visits.items()))
            yield f"{user} buys after {seen}"
            self.visits.clear()
        else:
            self.visits.put(page, (self.visits.get(page) or 0) + 1)


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    buyers = env.from_collection(CLICKS).key_by(0).process(Visits()).uid("visits")
    for line in sorted(buyers.execute_and_collect("map state")):
        print(line)


if __name__ == "__main__":
    main()
