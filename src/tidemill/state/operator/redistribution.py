"""Redistributes operator state when the parallelism changes: which subtask gets which elements and deletes old ones.

Pure functions over the stored state, by the number of the subtask that wrote it. All subtasks compute the same result
from the same checkpoint, each uses its own part, and the first delta after the change updates storage accordingly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from tidemill.state.keys.key_groups import Subtask, subtasks_of

T = TypeVar("T")


def union(stored: Mapping[Subtask, Sequence[T]]) -> list[T]:
    """The elements of all subtasks, in the order of the subtasks."""
    return [element for subtask in sorted(stored) for element in stored[subtask]]


def dealt(stored: Mapping[Subtask, Sequence[T]], before: int, after: int) -> list[list[T]]:
    """The elements of each of ``after`` subtasks, where ``before`` subtasks stored them.

    With the same parallelism, each subtask gets its own elements back. Otherwise all elements, in order, are split into
    contiguous parts whose lengths differ by at most one, the longer ones first, as in Flink.

    >>> dealt({0: [1, 2, 3], 1: [4]}, 2, 2)
    [[1, 2, 3], [4]]
    >>> dealt({0: [1, 2, 3], 1: [4]}, 2, 3)
    [[1, 2], [3], [4]]
    """
    if before == after:
        return [list(stored.get(subtask, ())) for subtask in subtasks_of(after)]
    elements = union(stored)
    share, surplus = divmod(len(elements), after)
    ends = [share * number + min(number, surplus) for number in range(after + 1)]
    return [elements[start:end] for start, end in pairwise(ends)]


def copied_from(subtask: Subtask, before: int) -> Subtask:
    """The former subtask whose broadcast state a subtask copies: its own if it existed, else round robin."""
    return subtask if subtask < before else Subtask(subtask % before)


def given_up(stored: Iterable[Subtask], subtask: Subtask, parallelism: int) -> list[Subtask]:
    """The former subtasks that no longer exist and whose entries ``subtask`` deletes; each is deleted by one subtask.

    >>> [given_up([0, 1, 2, 3, 5], subtask, 2) for subtask in range(2)]
    [[2], [3, 5]]
    """
    return [former for former in sorted(stored) if former >= parallelism and former % parallelism == subtask]
