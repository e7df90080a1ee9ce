"""What a pass costs. Lies beside the program: `tidemill run` sends it to the workers without being asked."""

from __future__ import annotations


def toll(number: int) -> int:
    """Cents for the pass with this number."""
    return 100 + 37 * number % 250
