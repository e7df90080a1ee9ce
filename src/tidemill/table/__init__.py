"""The part of PyFlink's ``table`` package that DataStream programs use: ``DataTypes``, for the columns of files."""

from __future__ import annotations

from tidemill.table.types import DataType, DataTypes, RowField

__all__ = ["DataType", "DataTypes", "RowField"]
