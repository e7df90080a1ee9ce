"""RocksDB: state on local disk, for state that does not fit into memory. The program itself does not change.

Run it with ``python -m examples.state.rocksdb_backend``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import EmbeddedRocksDBStateBackend, KeyedProcessFunction, MapStateDescriptor, RuntimeContext

READERS = 200


class PagesRead(KeyedProcessFunction):
    """Emits a reader who has read all ten pages of a book. Pages may repeat, and arrive in any order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.pages = runtime_context.get_map_state(MapStateDescriptor("pages", Types.LONG(), Types.BOOLEAN()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        page = value * 7 // READERS % 10
        if not self.pages.contains(page):
            self.pages.put(page, True)
            if len(list(self.pages.keys())) == 10:
                yield ctx.get_current_key()


def main(arguments: Sequence[str] | None = None) -> None:
    with tempfile.TemporaryDirectory() as disk:
        env = environment(__doc__, arguments, {"execution.epoch.max-records": "500"})
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(disk)  # in production: fast local disks of the worker, used in rotation
        env.set_state_backend(backend)
        readers = env.from_sequence(0, 12 * READERS - 1).key_by(lambda number: number % READERS, Types.LONG())
        done = set(readers.process(PagesRead()).uid("pages-read").execute_and_collect("rocksdb backend"))
        print(f"{len(done)} of {READERS} have read all pages")


if __name__ == "__main__":
    main()
