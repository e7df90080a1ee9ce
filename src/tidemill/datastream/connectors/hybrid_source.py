"""A source that reads several sources one after the other, under PyFlink's path."""

from __future__ import annotations

from tidemill.connectors.hybrid_source import (
    HybridSource,
    HybridSourceBuilder,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "HybridSource",
    "HybridSourceBuilder",
]

__getattr__ = names_elsewhere(__name__, {**PYTHON_NAMES, "Source": "tidemill.connectors.base"})
