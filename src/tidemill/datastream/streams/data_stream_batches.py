"""The methods of :class:`DataStream` whose functions receive whole batches: the fast path, and not part of Flink."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.state_descriptors import TypeSpec, resolve_type
from tidemill.datastream.program.specs import BatchFilterSpec, BatchFlatMapSpec, BatchMapSpec
from tidemill.datastream.program.type_hints import output_type as type_of_output

if TYPE_CHECKING:
    from tidemill.datastream.streams.data_stream import DataStream

#: The formats of batches; those with a package of their own need it to be installed.
FORMATS: Final = ("list", "arrow", "pandas", "polars", "numpy")
_PACKAGES: Final = frozenset({"pandas", "polars"})


class StreamBatches:
    """Functions on batches of records: as lists, Arrow or numpy arrays, pandas or polars DataFrames.

    A batch is a part of an epoch; its length depends on the input, and results must not depend on it. Records of a row
    or tuple type are a table: a ``RecordBatch``, a DataFrame, or a dict of numpy arrays. All other records are a single
    array or series. A function returns the same kind of object; a declared ``output_type`` determines the types of the
    columns and the form of the records.
    """

    _type: TypeInformation | None
    _transform: Callable[..., DataStream]

    def map_batch(
        self, func: Callable[[Any], Any], output_type: TypeSpec = None, *, batch_format: str = "list"
    ) -> DataStream:
        """Emit one record for each record of a batch.

        >>> import pyarrow.compute as pc
        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> numbers = env.from_collection([1, 2, 3])
        >>> list(numbers.map_batch(lambda batch: [2 * n for n in batch]).execute_and_collect())
        [2, 4, 6]
        >>> list(numbers.map_batch(lambda array: pc.multiply(array, 2), batch_format="arrow").execute_and_collect())
        [2, 4, 6]
        """
        _check("map_batch", func, batch_format)
        declared = _declared(output_type, func, batch_format)
        return self._transform("MapBatch", BatchMapSpec(func, batch_format, self._type), declared)

    def filter_batch(self, func: Callable[[Any], Any], *, batch_format: str = "arrow") -> DataStream:
        """Keep the records of a batch for which the function returns true. A null is not true.

        >>> from tidemill.common import Configuration, Types
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> orders = env.from_collection([("tea", 3), ("milk", 9)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> list(orders.filter_batch(lambda batch: batch["f1"] > 5, batch_format="pandas").execute_and_collect())
        [('milk', 9)]
        """
        _check("filter_batch", func, batch_format)
        return self._transform("FilterBatch", BatchFilterSpec(func, batch_format, self._type), self._type)

    def flat_map_batch(
        self, func: Callable[[Any], Any], output_type: TypeSpec = None, *, batch_format: str = "arrow"
    ) -> DataStream:
        """Emit any number of records for a batch; None means none.

        If the records have timestamps, the function returns two results: the records, and for each of them the position
        of its cause in the batch, whose timestamp it gets.

        >>> import pyarrow as pa
        >>> from tidemill.common import Configuration
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> numbers = env.from_collection([1, 2]).flat_map_batch(lambda array: pa.concat_arrays([array, array]))
        >>> list(numbers.execute_and_collect())
        [1, 2, 1, 2]
        """
        _check("flat_map_batch", func, batch_format)
        declared = _declared(output_type, func, batch_format)
        return self._transform("FlatMapBatch", BatchFlatMapSpec(func, batch_format, self._type), declared)


def _declared(output_type: TypeSpec, func: Any, form: str) -> TypeInformation | None:
    """Return the type of the records. Only the type hint of a function that returns a list describes them."""
    if form == "list":
        return type_of_output(output_type, func, None, many=True)
    return None if output_type is None else resolve_type(output_type)


def _check(method: str, func: Any, form: str) -> None:
    if not callable(func):
        raise TypeError(f"{method}() needs a function of a batch, not {type(func).__name__}")
    if form not in FORMATS:
        raise ValueError(f"{method}(): the batch_format must be one of {', '.join(FORMATS)}, not {form!r}")
    if form in _PACKAGES and find_spec(form) is None:
        raise ModuleNotFoundError(f"{method}(batch_format={form!r}) needs the package {form}: pip install {form}")
