"""Bounds of Java's ``long``, which timestamps and watermarks keep to."""

from __future__ import annotations

#: Greatest value of a 64-bit signed integer.
MAX_LONG_VALUE = (1 << 63) - 1

#: Least value of a 64-bit signed integer.
MIN_LONG_VALUE = -(1 << 63)

#: Tag of the main output.
DEFAULT_OUTPUT_TAG = ""
