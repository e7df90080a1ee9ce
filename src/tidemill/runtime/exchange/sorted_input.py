"""BATCH mode: the keyed input of a subtask, buffered until it is complete, then passed on key by key.

Records are collected by key group. If they exceed the memory limit, they are written to a temporary file. Each key
group is then read as a whole, sorted by key, and within a key by timestamp. An operator therefore has the state of only
one key group at a time, whatever the number of keys, and no record is ever late.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from itertools import groupby
from typing import Any, BinaryIO

from tidemill.errors import TidemillError
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.state.keys.key_groups import GroupCache

#: The approximate ratio of the size of a record as Python objects to its size in a parcel.
_OBJECT_FACTOR = 4


class _Records:
    """Records of one key group, as parallel lists; ``inputs`` contains the input of the operator for each record."""

    __slots__ = ("inputs", "keys", "timestamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.keys: list[Any] = []
        self.timestamps: list[int | None] = []
        self.inputs: list[int] = []

    def extend(self, other: _Records) -> None:
        self.values += other.values
        self.keys += other.keys
        self.timestamps += other.timestamps
        self.inputs += other.inputs


class SortedInput:
    """Collects batches with :meth:`add`; :meth:`key_groups` then returns them sorted, one key group after the other."""

    def __init__(self, max_parallelism: int, memory: int, where: str) -> None:
        # configuration
        self._group_of = GroupCache(max_parallelism)
        self._memory = memory
        self._where = where
        # transient
        self._held: dict[int, _Records] = {}
        self._held_bytes = 0
        self._file: BinaryIO | None = None
        self._spilled: dict[int, list[int]] = {}

    def grow(self, parcel_bytes: int) -> None:
        """Make room for a parcel of this size, which is about to be added."""
        self._held_bytes += parcel_bytes * _OBJECT_FACTOR
        if self._held_bytes > self._memory:
            self._spill()
            self._held_bytes = 0

    def add(self, batch: Batch, input_index: int) -> None:
        """Buffer the records of a keyed batch."""
        keys = batch.keys or []
        timestamps: list[Any] = batch.timestamps or [None] * len(batch)
        held = self._held
        for group, value, key, timestamp in zip(
            self._group_of.groups(keys), batch.values, keys, timestamps, strict=True
        ):
            records = held.get(group)
            if records is None:
                records = held[group] = _Records()
            records.values.append(value)
            records.keys.append(key)
            records.timestamps.append(timestamp)
            records.inputs.append(input_index)

    def key_groups(self) -> Iterator[list[tuple[int, Batch]]]:
        """Yield the records of one key group after the other: batches of (input, records), sorted by key and timestamp.

        Of records with the same timestamp, those of the first input come first. Yielded records are removed.
        """
        for group in sorted({*self._held, *self._spilled}):
            records = self._read(group)
            records.extend(self._held.pop(group, _Records()))
            yield _sorted_batches(records)

    def close(self) -> None:
        """Release memory and disk space."""
        self._held.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="tidemill-sort-")  # noqa: SIM115 - closed by close()
            for group, records in self._held.items():
                self._spilled.setdefault(group, []).append(self._file.tell())
                parts = (records.values, records.keys, records.timestamps, records.inputs)
                pickle.dump(parts, self._file, 5)
        except OSError as error:
            raise TidemillError(
                f"the input of {self._where} is larger than execution.sorted-inputs.memory, and writing it to "
                f"{tempfile.gettempdir()} failed: {error}. Free space there, or set TMPDIR to a larger disk."
            ) from error
        self._held.clear()

    def _read(self, group: int) -> _Records:
        found = _Records()
        for position in self._spilled.pop(group, ()):
            if self._file is None:
                raise TidemillError(f"the sorted input of {self._where} was closed before it was read")
            self._file.seek(position)
            part = _Records()
            part.values, part.keys, part.timestamps, part.inputs = pickle.load(self._file)
            found.extend(part)
        return found


def _sorted_batches(records: _Records) -> list[tuple[int, Batch]]:
    by_key: dict[Any, list[int]] = {}
    for position, key in enumerate(records.keys):
        by_key.setdefault(key, []).append(position)
    stamped = any(timestamp is not None for timestamp in records.timestamps)
    times = [MIN_TIME if timestamp is None else timestamp for timestamp in records.timestamps] if stamped else []
    inputs = records.inputs
    one_input = min(inputs) == max(inputs)
    if stamped:
        for positions in by_key.values():
            positions.sort(key=lambda position: (times[position], inputs[position]))
    elif not one_input:
        for positions in by_key.values():
            positions.sort(key=inputs.__getitem__)
    order = [position for positions in by_key.values() for position in positions]

    def batch(positions: list[int]) -> Batch:
        return Batch(
            [records.values[position] for position in positions],
            [times[position] for position in positions] if stamped else None,
            [records.keys[position] for position in positions],
        )

    if one_input:
        return [(inputs[0], batch(order))]
    return [(number, batch(list(positions))) for number, positions in groupby(order, key=inputs.__getitem__)]
