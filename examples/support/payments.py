"""A live stream of card payments: generated, deterministic, and with some fraudulent payments.

It resembles a topic with four partitions, each with its own cards. A partition has one payment per *tick*, so a
position is the number of the next tick. The same position always produces the same payments, which is all that exactly
once requires of a source.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource

PARTITIONS: Final = 4
CARDS: Final = 20_000
COUNTRIES: Final = ("AT", "BR", "DE", "FR", "IN", "JP", "KE", "US")
MERCHANTS: Final = ("bakery", "books", "fuel", "games", "grocer", "hotel", "shoes", "taxi")

SECOND: Final = 1000  # event time is in milliseconds
MINUTE: Final = 60 * SECOND

#: Event time runs faster than the wall clock: a minute of event time passes in two seconds of the demo.
SPEED: Final = 30
START: Final = 1_767_261_600_000  # 2026-01-01 10:00 UTC
MIDNIGHT: Final = START + 14 * 60 * MINUTE

TICKS_PER_SECOND: Final = 2_500
TICK: Final = SPEED * SECOND // TICKS_PER_SECOND  # 12 ms of event time
#: Payments are generated in blocks of two minutes of event time. Fraudulent payments are placed within a block.
BLOCK: Final = 2 * MINUTE // TICK


class Payment(NamedTuple):
    """One payment by card. ``cents`` is the amount, ``at`` the event time."""

    card: int
    cents: int
    country: str
    merchant: str
    at: int


class PaymentSource(SplitSource):
    """Emits the payments of a live stream of ``seconds`` seconds as they become due."""

    bounded = True
    replayable = True

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ticks = int(seconds * TICKS_PER_SECOND)

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that starts at a tick."""
        return _DueTicks(0 if position is None else int(position), self.ticks)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """On a worker: read the payments of some partitions and ticks."""
        partitions, first, last = split.payload
        payments = [payment(partition, tick) for tick in range(first, last) for partition in partitions]
        yield RecordBatch(payments, [payment.at for payment in payments])

    def everything(self) -> Iterator[Payment]:
        """All payments, read without any engine. The results of the job are compared with them."""
        return (payment(partition, tick) for tick in range(self.ticks) for partition in range(PARTITIONS))


class _DueTicks(SplitEnumerator):
    """Returns the ticks that are due by the wall clock.

    The first epoch contains a single tick, and the clock starts when it is complete, because it starts the workers.
    """

    def __init__(self, first: int, end: int) -> None:
        self._first = self._next = first
        self._end = end
        self._began: float | None = None

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        first = self._next
        self._next = min(self._due(), first + max_records // PARTITIONS)
        shares = [tuple(range(subtask, PARTITIONS, parallelism)) for subtask in range(min(parallelism, PARTITIONS))]
        return [Split((share, first, self._next), len(share) * (self._next - first)) for share in shares]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._next >= self._end

    def available(self) -> bool:
        return self._due() > self._next

    def _due(self) -> int:
        """The first tick that is not due yet."""
        if self._next == self._first:
            return self._first + 1
        self._began = self._began or time.monotonic()
        seconds = time.monotonic() - self._began
        return min(self._end, self._first + 1 + int(seconds * TICKS_PER_SECOND))


def payment(partition: int, tick: int) -> Payment:
    """The payment of one partition at one tick."""
    return _block(partition, tick // BLOCK)[tick % BLOCK]


@lru_cache(maxsize=2 * PARTITIONS)
def _block(partition: int, number: int) -> list[Payment]:
    """Two minutes of one partition: regular payments at home, and a few fraudulent ones."""
    rng = random.Random(f"{partition}/{number}")
    begin = START + number * BLOCK * TICK
    cards = rng.choices(range(partition, CARDS, PARTITIONS), k=BLOCK)
    payments = [
        Payment(card, 200 + int(40_000 * rng.random() ** 3), home(card), rng.choice(MERCHANTS), begin + tick * TICK)
        for tick, card in enumerate(cards)
    ]

    def plant(tick: int, card: int, cents: int, country: str) -> None:
        payments[tick] = Payment(card, cents, country, rng.choice(MERCHANTS), begin + tick * TICK)

    for _ in range(3):  # a stolen card is tested with a few cents, then emptied within a minute
        card, tick = rng.choice(cards), rng.randrange(BLOCK // 2)
        plant(tick, card, rng.randrange(1, 100), home(card))
        plant(tick + rng.randrange(100, MINUTE // TICK), card, rng.randrange(50_000, 200_000), home(card))
    for _ in range(2):  # a copied card is used in another country minutes after it was used at home
        card, tick = rng.choice(cards), rng.randrange(BLOCK // 2)
        plant(tick, card, rng.randrange(200, 40_000), home(card))
        plant(tick + rng.randrange(100, BLOCK // 2), card, rng.randrange(200, 40_000), home(card + 1))
    for _ in range(2):  # legitimate: a small payment, and a large one more than a minute later
        card, tick = rng.choice(cards), rng.randrange(BLOCK // 4)
        plant(tick, card, rng.randrange(1, 100), home(card))
        plant(tick + MINUTE // TICK + rng.randrange(1, BLOCK // 4), card, rng.randrange(50_000, 200_000), home(card))
    return payments


def home(card: int) -> str:
    """The country a card belongs to."""
    return COUNTRIES[card % len(COUNTRIES)]
