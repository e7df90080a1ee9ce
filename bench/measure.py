"""What a measurement is, and how it is told: medians over epochs, and ratios to the baseline of the same run."""

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
    """Measure in a fresh process, as a worker is one: what other cases have left in this one makes loops slower."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure).result()


def of_epochs(case: str, contender: str, records: list[int], seconds: list[float], **details: Any) -> Measurement:
    """Summarise epochs; the first third is warm-up: a stream runs for days, the JVM's compiler for half a minute."""
    skip = -(-len(seconds) // 3) if len(seconds) > 1 else 0
    rates = [count / taken for count, taken in zip(records[skip:], seconds[skip:], strict=True)]
    return Measurement(
        case,
        contender,
        statistics.median(rates),
        statistics.median(seconds[skip:]),
        {"epochs": len(seconds), "best": max(rates), **details},
    )
