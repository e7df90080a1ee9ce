"""Exists for compatibility with PyFlink and has no effect: Spark schedules the tasks."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """When a task may be scheduled: when any of its inputs is available, or when all are."""

    ANY = 0
    ALL = 1
