"""Who passes. Lies elsewhere than the program: workers get it by `--py-files`."""

from __future__ import annotations

CARS = 23


def pass_at(number: int) -> tuple[str, int]:
    """The pass with this number: its car, and the number."""
    return f"car-{number * 7 % CARS}", number
