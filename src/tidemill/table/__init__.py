"""The part of PyFlink's ``table`` package that DataStream programs use: ``DataTypes`` for the columns of files.

There is no Table API. For contributors: Start with ``types.py``. The types of streams and state are in
``tidemill.common.typeinfo``.
"""

from __future__ import annotations

from tidemill.table.types import DataType, DataTypes, RowField

__all__ = ["DataType", "DataTypes", "RowField"]
