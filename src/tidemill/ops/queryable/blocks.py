"""A cache of blocks of state files, each with an index of its keys, with a limit in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import pyarrow as pa

from tidemill.ops.queryable.answer import PartSchema
from tidemill.ops.queryable.key_index import key_index

__all__ = ["BlockCache", "BlockId", "IndexedBlock", "NotInMemoryError"]


class NotInMemoryError(Exception):
    """A block is not in memory and must be read."""


class BlockId(NamedTuple):
    """A block of an immutable file: the file by its checksum, the block by its offset."""

    sha256: str
    offset: int


class IndexedBlock:
    """The rows of a block, indexed by key. Values remain as they are stored."""

    __slots__ = ("_batch", "_index", "_row_bytes", "nbytes", "schema")

    def __init__(self, table: Any, schema: PartSchema) -> None:
        table = table.combine_chunks()
        batches = table.to_batches()
        self._batch = batches[0] if batches else None
        self._index = key_index(table)
        #: The size of a row, if all rows have the same size.
        self._row_bytes: int | None = None
        if all(map(_is_fixed, table.schema.types)):
            self._row_bytes = table.nbytes // max(1, table.num_rows)
        self.schema = schema
        self.nbytes: int = table.nbytes + self._index.nbytes

    def rows_of(self, key: Any) -> list[int]:
        """Return the rows of a key (in plain form) in order; empty if there are none."""
        return self._index.rows_of(key)

    def take(self, rows: list[int]) -> Any:
        """Return these rows as a record batch."""
        batch: Any = self._batch
        return batch.slice(rows[0], 1) if len(rows) == 1 else batch.take(pa.array(rows))

    def size_of(self, rows: list[int]) -> int:
        """Return the approximate size of these rows in bytes."""
        if self._row_bytes is not None:
            return self._row_bytes * len(rows)
        batch: Any = self._batch
        return sum(int(batch.slice(row, 1).nbytes) for row in rows)

    def ops(self, rows: list[int]) -> list[int]:
        """Return the operation of each of these rows: see ``tidemill.state.files.rows``."""
        batch: Any = self._batch
        column = batch.column(batch.schema.get_field_index("op"))
        return [column[row].as_py() for row in rows]


class BlockCache:
    """An LRU cache of blocks with at most ``budget`` bytes. Thread-safe.

    A block that several threads request at the same time is read once.
    """

    def __init__(self, budget: int) -> None:
        # configuration
        self._budget = budget
        # transient
        self._lock = threading.Lock()
        self._blocks: OrderedDict[BlockId, IndexedBlock] = OrderedDict()
        self._reading: dict[BlockId, Future[IndexedBlock]] = {}
        self.nbytes = 0

    def get(self, block: BlockId, read: Callable[[], IndexedBlock] | None) -> IndexedBlock:
        """Return a block, which ``read`` reads if it is not in the cache.

        Raises the errors of ``read``, and :class:`NotInMemoryError` if ``read`` is None.
        """
        with self._lock:
            found = self._blocks.get(block)
            if found is not None:
                self._blocks.move_to_end(block)
                return found
            if read is None:
                raise NotInMemoryError
            going_on = self._reading.get(block)
            ours: Future[IndexedBlock] = Future()
            if going_on is None:
                self._reading[block] = ours
        return going_on.result() if going_on is not None else self._read(block, read, ours)

    def _read(self, block: BlockId, read: Callable[[], IndexedBlock], future: Future[IndexedBlock]) -> IndexedBlock:
        try:
            found = read()
        except BaseException as error:
            with self._lock:
                del self._reading[block]
            future.set_exception(error)
            raise
        with self._lock:
            del self._reading[block]
            self._blocks[block] = found
            self.nbytes += found.nbytes
            while self.nbytes > self._budget and len(self._blocks) > 1:
                self.nbytes -= self._blocks.popitem(last=False)[1].nbytes
        future.set_result(found)
        return found


def _is_fixed(arrow_type: Any) -> bool:
    """Whether all values of a type have the same number of bytes."""
    if pa.types.is_struct(arrow_type):
        return all(_is_fixed(arrow_type.field(at).type) for at in range(arrow_type.num_fields))
    return bool(pa.types.is_primitive(arrow_type))
