"""The input of the job, and its expected results, computed in plain Python without Tidemill."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

Record = tuple[str, int, int]

KEYS: Final = 37
#: The partitions of the source. All records of a key are in the same partition.
PARTITIONS: Final = 2
#: The largest delay of a record behind the latest one of its source, in ms. Watermarks allow for it: none is late.
DISORDER: Final = 300
WINDOW: Final = 1000
GAP: Final = 800


def record(number: int) -> Record:
    """The record of a number as (key, number, timestamp). Timestamps rise by 25 ms per record, but are out of order."""
    return f"k{number * 7 % KEYS}", number, 25 * number - number * 13 % DISORDER


def partition_of(number: int) -> int:
    """The partition of a record."""
    return number * 7 % KEYS % PARTITIONS


@dataclass
class Truth:
    """The expected output by sink and state by name, after the records 0 to ``count`` - 1."""

    count: int
    output: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    counts: dict[str, int] = field(default_factory=Counter)
    digits: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, count: int) -> Truth:
        truth = cls(count)
        truth._accounts()
        truth._tumbling()
        truth._sessions()
        return truth

    def _accounts(self) -> None:
        sums: Counter[tuple[str, int]] = Counter()
        for number in range(self.count):
            key, _, timestamp = record(number)
            self.counts[key] += 1
            place = (key, number % 10)
            self.digits[place] = self.digits.get(place, 0) + number
            if number % 500 == 499:
                del self.digits[place]
            self.output["accounts"][f"seen {key} {self.counts[key]} {number}"] += 1
            sums[key, timestamp - timestamp % WINDOW + WINDOW] += number
        for (key, end), total in sums.items():
            self.output["accounts"][f"timer {key} {end} {total}"] += 1

    def _tumbling(self) -> None:
        windows: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number in range(self.count):
            key, _, timestamp = record(number)
            windows[key, timestamp - timestamp % WINDOW].append(number)
        for (key, start), numbers in windows.items():
            self.output["windows"][f"{key} {start} {len(numbers)} {sum(numbers)}"] += 1

    def _sessions(self) -> None:
        by_key: dict[str, list[int]] = defaultdict(list)
        for number in range(self.count):
            key, _, timestamp = record(number)
            by_key[key].append(timestamp)
        for key, timestamps in by_key.items():
            timestamps.sort()
            first = last = timestamps[0]
            size = 0
            for timestamp in timestamps:
                if timestamp >= last + GAP:
                    self.output["sessions"][f"{key} {first} {last + GAP} {size}"] += 1
                    first, size = timestamp, 0
                last = timestamp
                size += 1
            self.output["sessions"][f"{key} {first} {last + GAP} {size}"] += 1
