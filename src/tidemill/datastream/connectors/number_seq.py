"""A source of consecutive numbers."""

from __future__ import annotations

from tidemill.connectors.number_seq import (
    NumberSequenceSource,
)

__all__ = [
    "NumberSequenceSource",
]
