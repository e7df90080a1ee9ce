"""A sequence of numbers as a source."""

from __future__ import annotations

from tidemill.connectors.number_seq import (
    NumberSequenceSource,
)

__all__ = [
    "NumberSequenceSource",
]
