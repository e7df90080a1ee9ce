"""The codec for values of mixed or unusual types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.state.codecs.base import TRUSTED, ColumnCodec, Loading, to_list
from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.tagged_writer import TaggedWriter

__all__ = ["TaggedCodec"]


class TaggedCodec(ColumnCodec):
    """large_binary: each value in the self-describing form of :mod:`tidemill.state.codecs.tagged_writer`.

    ``pickle`` in the description specifies whether the column contains pickled values. If it is false, nothing is
    unpickled.
    """

    name = "tagged"
    arrow_type = pa.large_binary()

    def __init__(self, *, pickle: bool = True, loading: Loading = TRUSTED) -> None:
        if pickle and not loading.allow_pickle:
            raise SerializationError("a column contains pickled values, and may not be unpickled (allow_pickle=False)")
        self._pickle = pickle
        self._loading = loading

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        writer = TaggedWriter()
        dumps = writer.dumps
        array = pa.array([value if value is None else dumps(value) for value in values], self.arrow_type)
        return TaggedCodec(pickle=writer.used_pickle, loading=self._loading), array

    def decode(self, array: Any) -> list[Any]:
        loads = TaggedReader(self._loading, pickles=self._pickle).loads
        return [value if value is None else loads(value) for value in to_list(array)]

    def _parameters(self) -> dict[str, Any]:
        return {"pickle": self._pickle}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(pickle=spec["pickle"], loading=loading)
