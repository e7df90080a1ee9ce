"""Names of parametrized tests: the same in every process, so that tests dealt out to several are the same tests."""

from __future__ import annotations

import re
from typing import Any

# The text of a set of two or more (its order follows the hash seed), or of an object without a text of its own.
CHANGING = re.compile(r"\{[^:{}]+,|\bat 0x[0-9a-f]+")


def changes(name: str) -> bool:
    """Whether a name may be another in another process."""
    return CHANGING.search(name) is not None


def id_of(value: Any, longest: int = 40) -> str:
    """A value's text as the name of a test, or its type where the text would change."""
    text = repr(value)
    return type(value).__name__ if changes(text) else text[:longest]
