"""Measurements: medians over epochs."""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Measurement:
    """One contender in one case."""

    case: str
    contender: str
    records_per_second: float = 0.0
    seconds_per_epoch: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The measurement as plain data."""
        return asdict(self)


def alone(measure: Callable[[], list[Measurement]]) -> list[Measurement]:
    """Measure in a new process, like that of a worker: leftovers of other cases in this process slow down loops."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure).result()


def of_epochs(case: str, contender: str, records: list[int], seconds: list[float], **details: Any) -> Measurement:
    """Summarize epochs, without the first third.

    That third is warm-up: a stream runs for days, but the JVM's compiler is busy for only half a minute.
    """
    skip = -(-len(seconds) // 3) if len(seconds) > 1 else 0
    rates = [count / taken for count, taken in zip(records[skip:], seconds[skip:], strict=True)]
    return Measurement(
        case,
        contender,
        statistics.median(rates),
        statistics.median(seconds[skip:]),
        {"epochs": len(seconds), "best": max(rates), **details},
    )
