"""The classes of PyFlink's errors from Java, for ``except`` clauses. No job raises them.

A job that fails raises :class:`tidemill.errors.JobExecutionError`, and a program that is wrong the other classes of
``tidemill.errors``.
"""

from __future__ import annotations

__all__ = [
    "CatalogException",
    "DatabaseAlreadyExistException",
    "DatabaseNotEmptyException",
    "DatabaseNotExistException",
    "FunctionAlreadyExistException",
    "FunctionNotExistException",
    "JavaException",
    "ModelAlreadyExistException",
    "ModelNotExistException",
    "PartitionAlreadyExistsException",
    "PartitionNotExistException",
    "PartitionSpecInvalidException",
    "TableAlreadyExistException",
    "TableException",
    "TableNotExistException",
    "TableNotPartitionedException",
]


class JavaException(Exception):  # noqa: N818 - PyFlink's name
    """The base class of the errors below."""

    def __init__(self, stack_trace: str) -> None:
        super().__init__(stack_trace)
        self.stack_trace = stack_trace


class TableException(JavaException):
    """A table program is wrong."""


class CatalogException(JavaException):
    """A catalog fails."""


class DatabaseAlreadyExistException(JavaException):
    """A database exists."""


class DatabaseNotEmptyException(JavaException):
    """A database contains tables."""


class DatabaseNotExistException(JavaException):
    """A database does not exist."""


class FunctionAlreadyExistException(JavaException):
    """A function exists."""


class FunctionNotExistException(JavaException):
    """A function does not exist."""


class ModelAlreadyExistException(JavaException):
    """A model exists."""


class ModelNotExistException(JavaException):
    """A model does not exist."""


class PartitionAlreadyExistsException(JavaException):
    """A partition exists."""


class PartitionNotExistException(JavaException):
    """A partition does not exist."""


class PartitionSpecInvalidException(JavaException):
    """A partition does not have the columns that a table is partitioned by."""


class TableAlreadyExistException(JavaException):
    """A table exists."""


class TableNotExistException(JavaException):
    """A table does not exist."""


class TableNotPartitionedException(JavaException):
    """A table has no partitions."""
