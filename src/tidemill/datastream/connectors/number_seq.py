"""A source of consecutive numbers."""

from __future__ import annotations

from tidemill.connectors.number_seq import (
    NumberSequenceSource,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "NumberSequenceSource",
]

__getattr__ = names_elsewhere(__name__, {**PYTHON_NAMES, "Source": "tidemill.connectors.base"})
