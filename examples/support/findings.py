"""The findings of the fraud detection, their file format, and a reference computation without any engine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from examples.support.payments import MINUTE, Payment

SMALL: Final = 100  # cents: a payment below this amount tests a card
LARGE: Final = 50_000  # cents: a payment of at least this amount empties it
TRAVEL: Final = 10 * MINUTE  # too short to travel between two countries


class Alert(NamedTuple):
    """A payment that breaks a rule."""

    at: int
    card: int
    rule: str
    detail: str


class Statement(NamedTuple):
    """The total of all payments with a card."""

    card: int
    payments: int
    cents: int


@dataclass(frozen=True)
class Findings:
    """All findings of a run, sorted. An alert that was raised twice is contained twice."""

    alerts: list[Alert]
    statements: list[Statement]

    @property
    def payments(self) -> int:
        """The number of payments in all statements."""
        return sum(statement.payments for statement in self.statements)

    @property
    def cents(self) -> int:
        """The amount of all statements."""
        return sum(statement.cents for statement in self.statements)


def to_line(finding: Alert | Statement) -> str:
    """Format a finding as one line of an output file."""
    return json.dumps(finding)


def read_lines(files: Iterable[Path]) -> Iterator[list[Any]]:
    """Read the lines of output files. Each line contains the fields of one finding."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def written_findings(output: Path) -> Findings:
    """The findings that the job wrote."""
    alerts = [Alert(*fields) for fields in read_lines(committed_files(output / "alerts"))]
    statements = [Statement(*fields) for fields in read_lines(committed_files(output / "statements"))]
    return Findings(sorted(alerts), sorted(statements))


def committed_files(folder: Path) -> list[Path]:
    """The committed files of a sink. Hidden files are still being written."""
    return sorted(file for file in folder.glob("*") if not file.name.startswith(".")) if folder.exists() else []


def true_findings(payments: Iterable[Payment]) -> Findings:
    """The expected findings: compares each payment with the whole history of its card, without state or timers."""
    histories: dict[int, list[Payment]] = defaultdict(list)
    for payment in payments:
        histories[payment.card].append(payment)
    alerts = [alert for history in histories.values() for alert in _alerts(history)]
    statements = [
        Statement(card, len(history), sum(payment.cents for payment in history)) for card, history in histories.items()
    ]
    return Findings(sorted(alerts), sorted(statements))


def _alerts(history: list[Payment]) -> Iterator[Alert]:
    for index, payment in enumerate(history):
        past = history[:index]
        if payment.cents >= LARGE and any(p.cents < SMALL and payment.at - p.at <= MINUTE for p in past):
            yield Alert(payment.at, payment.card, "card testing", f"{payment.cents / 100:.2f} at {payment.merchant}")
        lately = {p.country for p in past if payment.at - p.at <= TRAVEL}
        if payment.country not in lately:
            for country in lately:
                yield Alert(payment.at, payment.card, "impossible travel", f"{payment.country} after {country}")
