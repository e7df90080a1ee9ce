"""Built-in aggregates over columnar batches: rolling ones, and the contents of windows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.datastream.functions.built_in import AggregateKind
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape, values_of
from tidemill.runtime.operators.built_in import Avg, BuiltInReduce, Count
from tidemill.runtime.operators.columnar.groups import Groups
from tidemill.runtime.operators.columnar.kernels import Sorted, final, is_exact
from tidemill.runtime.operators.columnar.records import RecordFields, fitting, numbers_like, numbers_of
from tidemill.state.keyed.single_states import SingleValueState

_BEST: Final = (AggregateKind.MIN_BY, AggregateKind.MAX_BY)
#: Integers up to this are exact as floating-point numbers.
_EXACT_FLOATS: Final = 2**53


def columnar(function: Any) -> RecordAggregate | NumberAggregate | None:
    """Return the implementation of a function for columns; None for functions of users."""
    if isinstance(function, BuiltInReduce):
        return RecordAggregate(function)
    return NumberAggregate(function) if isinstance(function, (Count, Avg)) else None


class RecordAggregate:
    """sum, min, max, min_by or max_by. The state of a key is a record."""

    def __init__(self, function: BuiltInReduce) -> None:
        self._kind = AggregateKind(function.label)
        self._field = function.field

    def rolling(self, batch: ColumnBatch, state: SingleValueState) -> ColumnBatch | None:
        """Add all rows to the state of their keys, and return the record of the key after each row.

        None, and nothing has happened, if this cannot be done by columns.
        """
        step = self._begin(batch, state)
        if step is None:
            return None
        rows = Sorted(step.groups.codes, step.groups.count)
        running = rows.running(self._kind, step.numbers, step.current, step.present)
        columns = step.rolled(rows, running) if self._kind not in _BEST else step.rolled_best(rows, running)
        if columns is None:
            return None
        last = rows.order[rows.lasts]
        records = step.records_at(columns, last)
        state.put_each(step.groups.keys, records)
        return ColumnBatch(columns, batch.shape, batch.times)

    def add(self, batch: ColumnBatch, state: SingleValueState) -> list[Any] | None:
        """Add all rows to the state of their keys, and return the keys that are new in this epoch.

        None, and nothing has happened, if this cannot be done by columns.
        """
        if self._kind in _BEST:
            return None
        step = self._begin(batch, state)
        if step is None:
            return None
        groups = step.groups
        numbers = final(self._kind, groups, step.numbers, step.current, step.present)
        if fitting(numbers, step.kind) is None:
            return None
        new = state.new_each(groups.keys)
        state.put_each(groups.keys, step.records_with(numbers))
        return new

    def _begin(self, batch: ColumnBatch, state: SingleValueState) -> _Step | None:
        index = _index_of(batch, self._field)
        if index is None or batch.key is None:
            return None
        numbers = numbers_of(batch.columns.column(index))
        if numbers is None:
            return None
        groups = Groups(batch.columns.column(batch.key))
        step = _Step(batch, index, numbers, groups)
        return step if step.read(state) and is_exact(self._kind, numbers, step.current) else None


class NumberAggregate:
    """count or avg. The state of a key is the number of records, or the sum and the number."""

    def __init__(self, function: Count | Avg) -> None:
        self._field = function.field if isinstance(function, Avg) else None

    def rolling(self, batch: ColumnBatch, state: SingleValueState) -> ColumnBatch | None:
        """Like :meth:`RecordAggregate.rolling`, but the results are pairs of a key and a number."""
        step = self._begin(batch, state)
        if step is None:
            return None
        groups, counts, sums, numbers = step
        rows = Sorted(groups.codes, groups.count)
        position = np.arange(len(groups.codes)) - np.repeat(rows.starts, rows.counts)
        running = np.repeat(counts, rows.counts) + position + 1
        if numbers is not None:
            everyone = np.ones(groups.count, bool)
            summed = rows.running(AggregateKind.SUM, numbers, sums, everyone)
            self._put(state, groups, running[rows.lasts], summed[rows.lasts])
            running = summed / running
        else:
            self._put(state, groups, running[rows.lasts], None)
        columns = [batch.columns.column(batch.key), pa.array(rows.in_order(running))]
        return ColumnBatch(pa.RecordBatch.from_arrays(columns, names=["f0", "f1"]), RecordShape.TUPLE, batch.times)

    def add(self, batch: ColumnBatch, state: SingleValueState) -> list[Any] | None:
        """Like :meth:`RecordAggregate.add`."""
        step = self._begin(batch, state)
        if step is None:
            return None
        groups, counts, sums, numbers = step
        new = state.new_each(groups.keys)
        counts = counts + np.bincount(groups.codes, minlength=groups.count)
        if numbers is not None:
            np.add.at(sums, groups.codes, numbers)
        self._put(state, groups, counts, sums if numbers is not None else None)
        return new

    def _begin(
        self, batch: ColumnBatch, state: SingleValueState
    ) -> tuple[Groups, np.ndarray, np.ndarray, np.ndarray | None] | None:
        """Return the rows by key, the number and sum of each key before the batch, and the numbers to add."""
        if batch.key is None:
            return None
        numbers = None
        if self._field is not None:
            index = _index_of(batch, self._field)
            numbers = None if index is None else numbers_of(batch.columns.column(index))
            if numbers is None:
                return None
        groups = Groups(batch.columns.column(batch.key))
        found = state.get_each(groups.keys)
        if numbers is None:
            return groups, np.array([stored or 0 for stored in found], np.int64), np.zeros(0), None
        whole = numbers.dtype.kind == "i"
        sums = numbers_like([(0 if whole else 0.0) if stored is None else stored[0] for stored in found], numbers)
        if sums is None or not is_exact(AggregateKind.SUM, numbers, sums):
            return None
        if whole and max(np.abs(numbers).max(initial=0), np.abs(sums).max(initial=0)) * len(numbers) > _EXACT_FLOATS:
            return None  # Python divides large integers more exactly than floating-point numbers can
        return groups, np.array([0 if stored is None else stored[1] for stored in found], np.int64), sums, numbers

    def _put(self, state: SingleValueState, groups: Groups, counts: np.ndarray, sums: np.ndarray | None) -> None:
        contents = counts.tolist() if sums is None else list(zip(sums.tolist(), counts.tolist(), strict=True))
        state.put_each(groups.keys, contents)


class _Step:
    """One batch on its way into the state."""

    def __init__(self, batch: ColumnBatch, index: int, numbers: np.ndarray, groups: Groups) -> None:
        self.groups = groups
        self.numbers = numbers
        self.kind = batch.columns.schema.field(index).type
        self._batch = batch
        self._index = index
        self._fields = RecordFields(batch.columns.schema, batch.shape)
        self._stored: list[Any] = [()] * batch.columns.num_columns
        self.present = np.zeros(groups.count, bool)
        self.current = np.zeros(groups.count, numbers.dtype)

    def read(self, state: SingleValueState) -> bool:
        """Read the state of all keys; False if its records cannot be columns of the batch."""
        found = state.get_each(self.groups.keys)
        self.present = np.fromiter((record is not None for record in found), bool, len(found))
        stored = self._fields.fields_of([record for record in found if record is not None])
        if stored is None:
            return False
        self._stored = stored
        current = numbers_like(stored[self._index], self.numbers)
        if current is None:
            return False
        self.current[self.present] = current
        return True

    @property
    def _others(self) -> list[int]:
        """The columns besides the aggregated one and the key, which is the same in all records of a group."""
        return [
            index for index in range(self._batch.columns.num_columns) if index not in (self._index, self._batch.key)
        ]

    def rolled(self, rows: Sorted, running: np.ndarray) -> pa.RecordBatch | None:
        """Return the first record of each row's group with the running value."""
        columns = list(self._batch.columns.columns)
        result = fitting(rows.in_order(running), self.kind)
        if result is None:
            return None
        columns[self._index] = result
        for index in self._others:
            firsts = self._batch.columns.column(index).take(pa.array(self.groups.first))
            known = self._fields.column(index, self._stored[index])
            if known is None:
                return None
            columns[index] = _replaced(firsts, known, self.present).take(pa.array(self.groups.codes))
        return pa.RecordBatch.from_arrays(columns, schema=self._batch.columns.schema)

    def rolled_best(self, rows: Sorted, running: np.ndarray) -> pa.RecordBatch | None:
        """Return the record with the best value of each row's group so far: the first one with that value."""
        count = len(running)
        better = np.ones(count, bool)
        better[1:] = running[1:] != running[:-1]
        better[rows.starts] = ~self.present | (running[rows.starts] != self.current)
        # The last better row of the group, or the stored record: those come after all rows of the batch.
        places = np.where(better, np.arange(count), 0)
        places[rows.starts] = rows.starts
        place = np.maximum.accumulate(places)
        stored_at = count + np.cumsum(self.present) - 1
        starts = np.repeat(rows.starts, rows.counts)
        from_state = (place == starts) & ~np.repeat(better[rows.starts], rows.counts)
        source = np.where(from_state, np.repeat(stored_at, rows.counts), rows.order[place])
        chosen = pa.array(rows.in_order(source))
        columns = []
        for index, column in enumerate(self._batch.columns.columns):
            known = self._fields.column(index, self._stored[index])
            if known is None:
                return None
            columns.append(pa.concat_arrays([column, known]).take(chosen))
        return pa.RecordBatch.from_arrays(columns, schema=self._batch.columns.schema)

    def records_at(self, columns: pa.RecordBatch, rows: np.ndarray) -> list[Any]:
        """Return some rows as records."""
        taken = columns.take(pa.array(rows))
        return self._fields.records([values_of(column) for column in taken.columns])

    def records_with(self, numbers: np.ndarray) -> list[Any]:
        """Return the first record of each group with another number in the aggregated field."""
        firsts = self._batch.columns.take(pa.array(self.groups.first))
        lists = [values_of(column) for column in firsts.columns]
        lists[self._index] = numbers.tolist()
        places = np.flatnonzero(self.present).tolist()
        for index in self._others:
            values = lists[index]
            for place, stored in zip(places, self._stored[index], strict=True):
                values[place] = stored
        return self._fields.records(lists)


def _replaced(firsts: pa.Array, known: pa.Array, present: np.ndarray) -> pa.Array:
    """Return the known values where they are present, and otherwise the first ones."""
    if not len(known):
        return firsts
    source = np.arange(len(firsts))
    source[present] = len(firsts) + np.arange(len(known))
    return pa.concat_arrays([firsts, known]).take(pa.array(source))


def _index_of(batch: ColumnBatch, field: Any) -> int | None:
    """Return the column of an aggregate's field."""
    if batch.shape is RecordShape.SINGLE:
        return 0 if field == 0 else None
    if isinstance(field, str):
        index: int = batch.columns.schema.get_field_index(field) if batch.shape is RecordShape.ROW else -1
    else:
        index = field
    return index if 0 <= index < batch.columns.num_columns else None
