"""map_batch, filter_batch and flat_map_batch: functions on whole batches, as lists or columns.

With every format but ``list``, the operators take columns and emit columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.datastream.program.specs import BatchFilterSpec, BatchFlatMapSpec, BatchMapSpec
from tidemill.errors import TidemillError, TypeMismatchError
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape
from tidemill.runtime.batch.formats import given, in_schema, mask_of, returned
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.batch.to_columns import ToColumns, record_columns
from tidemill.runtime.operators.base import Operator, OperatorContext

_Spec: TypeAlias = BatchMapSpec | BatchFilterSpec | BatchFlatMapSpec


class BatchFunctionOperator(Operator):
    """Calls a function with the records of a batch."""

    #: The method of the stream, for errors.
    method: str

    def __init__(self, spec: _Spec, context: OperatorContext) -> None:
        super().__init__(context)
        self._function = spec.function
        self._form = spec.form
        self._to_columns = ToColumns(spec.input_type)
        declared = context.plan.output_type
        self._columns = record_columns(declared)
        self._shape = None if self._columns is None else RecordShape.of(declared)

    def functions(self) -> list[Any]:
        return [self._function]

    @property
    def changes_input(self) -> bool:
        return self._form == "list"

    def process(self, batch: Batch, input_index: int) -> None:
        self._emit(self._called(batch if self._form == "list" else self._columnar(batch)))

    def _columnar(self, batch: Batch) -> ColumnBatch:
        try:
            return self._to_columns.batch(batch)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"{self.context.where}: {error}") from None

    def _called(self, batch: Batch) -> Batch:
        try:
            return self._apply(batch)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"{self.context.where}: {error}") from None
        except Exception as error:
            raise self._at_record(batch, error) from error
        except BaseException as error:
            raise self.failed(error) from error

    def _apply(self, batch: Batch) -> Batch:
        """Call the function, and check its result."""
        raise NotImplementedError

    def _emit(self, results: Batch) -> None:
        if isinstance(results, ColumnBatch) and (self._shape is not None or self.context.plan.output_type is None):
            self.output.emit_batch(results)
        else:  # a list, or columns whose records must be converted to a type that is not one of columns
            self.output.emit(results.values, results.timestamps)

    def _given(self, batch: Batch) -> Any:
        if self._form == "list":
            return list(batch.values)
        assert isinstance(batch, ColumnBatch)  # noqa: S101 - converted by process()
        return given(batch.columns, batch.shape, self._form)

    def _made(self, result: Any, times: pa.Int64Array | None) -> ColumnBatch:
        """Return the columns that a function returned, in their declared type."""
        columns, single = returned(result, self._form)
        schema = None if self._columns is None else self._columns.arrow_schema
        shape = self._shape or (RecordShape.SINGLE if single else RecordShape.ROW)
        return ColumnBatch(in_schema(columns, schema, by_name=shape is RecordShape.ROW), shape, times)

    def _at_record(self, batch: Batch, error: Exception) -> TidemillError:
        """Return the error of the function, with the record that causes it if it fails for that record alone."""
        start, stop = 0, len(batch)
        while stop - start > 1:
            middle = (start + stop) // 2
            if self._fails(batch.slice(start, middle), error):
                stop = middle
            elif self._fails(batch.slice(middle, stop), error):
                start = middle
            else:
                return self.failed(error)
        return self.failed_at(batch.values, error, start)

    def _fails(self, batch: Batch, error: Exception) -> bool:
        try:
            self._apply(batch)
        except Exception as found:
            return type(found) is type(error)
        return False


class MapBatchOperator(BatchFunctionOperator):
    """map_batch: as many output records as input records."""

    method = "map_batch"

    def _apply(self, batch: Batch) -> Batch:
        result = self._function(self._given(batch))
        if isinstance(batch, ColumnBatch) and self._form != "list":
            made: Batch = self._made(result, batch.times)
        else:
            records: list[Any] = []
            self.output.emissions.extend_of(records)(result)
            made = Batch(records, batch.timestamps)
        if len(made) != len(batch):
            raise TypeMismatchError(f"map_batch() must return one record for each: {len(batch)} in, {len(made)} out")
        return made


class FilterBatchOperator(BatchFunctionOperator):
    """filter_batch: the records for which the function returns true."""

    method = "filter_batch"

    def _apply(self, batch: Batch) -> Batch:
        result = self._function(self._given(batch))
        if isinstance(batch, ColumnBatch) and self._form != "list":
            return batch.where(mask_of(result, self._form, len(batch))).without_keys()
        chosen = list(result)
        if len(chosen) != len(batch):
            raise TypeMismatchError(
                f"filter_batch() must return one boolean for each: {len(batch)} in, {len(chosen)} out"
            )
        kept = batch.where(chosen)
        return Batch(self._captured(kept.values), kept.timestamps)

    def _captured(self, values: list[Any]) -> list[Any]:
        """Return records that the function has seen, and may have kept."""
        records: list[Any] = []
        self.output.emissions.extend_of(records)(values)
        return records

    def _emit(self, results: Batch) -> None:
        if isinstance(results, ColumnBatch):
            self.output.emit_batch(results)
        else:
            self.output.emit(results.values, results.timestamps)


class FlatMapBatchOperator(BatchFunctionOperator):
    """flat_map_batch: any number of records, with the positions of their causes if the input has timestamps."""

    method = "flat_map_batch"

    def _apply(self, batch: Batch) -> Batch:
        result = self._function(self._given(batch))
        if result is None:
            return Batch([])
        positions = None
        if isinstance(result, tuple) and len(result) == 2:
            result, causes = result
            positions = _positions(causes, len(batch))
        if isinstance(batch, ColumnBatch) and self._form != "list":
            made: Batch = self._made(result, None)
            if isinstance(made, ColumnBatch) and batch.times is not None:
                made.times = batch.times.take(pa.array(self._checked(positions, len(made))))
            return made
        records: list[Any] = []
        self.output.emissions.extend_of(records)(result)
        if batch.timestamps is None:
            return Batch(records)
        stamps = batch.timestamps
        return Batch(records, [stamps[place] for place in self._checked(positions, len(records)).tolist()])

    def _checked(self, positions: np.ndarray | None, count: int) -> np.ndarray:
        if positions is None:
            raise TypeMismatchError(
                "the records have timestamps: flat_map_batch() must return (records, positions), with the position in "
                "the batch of the record that each result comes from"
            )
        if len(positions) != count:
            raise TypeMismatchError(f"flat_map_batch() returned {count} records, but {len(positions)} positions")
        return positions


def _positions(causes: Sequence[int] | Any, count: int) -> np.ndarray:
    found = np.asarray(causes.to_numpy() if hasattr(causes, "to_numpy") else causes, dtype=np.int64)
    if len(found) and not (found.min() >= 0 and found.max() < count):
        raise TypeMismatchError(f"flat_map_batch() returned a position outside of its batch of {count} records")
    return found
