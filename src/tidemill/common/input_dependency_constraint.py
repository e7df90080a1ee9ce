"""Kept for programs that name it; Spark schedules the tasks."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """When a task may be scheduled: when any of its inputs can be read, or all."""

    ANY = 0
    ALL = 1
