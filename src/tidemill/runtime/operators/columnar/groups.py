"""The rows of a columnar batch, grouped by key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.state.keys.canonical_key import canonical_keys


class Groups:
    """Numbers the distinct keys of a column in the order in which they first occur."""

    __slots__ = ("codes", "count", "first", "keys")

    def __init__(self, column: pa.Array) -> None:
        encoded = column.dictionary_encode(null_encoding="encode")
        #: The number of each row's key.
        self.codes: np.ndarray = encoded.indices.to_numpy()
        #: The distinct keys.
        self.keys: list[Any] = canonical_keys(encoded.dictionary.to_pylist())
        self.count = len(self.keys)
        #: The first row of each key.
        self.first = np.empty(self.count, np.int64)
        self.first[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
