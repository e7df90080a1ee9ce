"""Formats of records, under PyFlink's paths."""

from __future__ import annotations
