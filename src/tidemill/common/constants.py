"""Bounds of Java's ``long``, which is the range of timestamps and watermarks."""

from __future__ import annotations

#: Largest value of a 64-bit signed integer.
MAX_LONG_VALUE = (1 << 63) - 1

#: Smallest value of a 64-bit signed integer.
MIN_LONG_VALUE = -(1 << 63)

#: Tag of the main output.
DEFAULT_OUTPUT_TAG = ""
