"""Generated records: a function of a sequence number, at a chosen rate."""

from __future__ import annotations

from tidemill.connectors.datagen import (
    DataGeneratorSource,
    GeneratorFunction,
    RateLimiterStrategy,
)

__all__ = [
    "DataGeneratorSource",
    "GeneratorFunction",
    "RateLimiterStrategy",
]
