"""The programs of the simulation. Together they cover every kind of state, both kinds of timers, and all graph shapes.

Records are ``(key, time, number)``; each source emits a number once. A sink receives ``(kind, key, ...)``. The records
of a key come from one subtask of a source, in order, and are never late. A *robust* program has the same output per
(kind, key) at any parallelism: it depends only on the order of records within a channel, and uses timers for results
that depend on several channels. The output of other programs is compared only at the same parallelism.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidemill.common.time import Duration
from tidemill.common.typeinfo import Types
from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import GraphError
from tidemill.testing.simulation.functions import (
    DICE,
    LATEST,
    Alarm,
    Everything,
    Hoard,
    Match,
    RandomAmount,
    Sort,
    Sums,
    Triples,
    WindowSum,
    WithLatest,
)

#: The maximum delay of a record behind the latest one of its source.
DISORDER: Final = 40
_SMALL = OutputTag("small")

Streams = Mapping[str, DataStream]


class Second(TimestampAssigner):
    """Assigns the second field of a record as its event time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


WATERMARKS: Final = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))


@dataclass(frozen=True)
class Input:
    """The input of one source: the records of each epoch, which do not change in a restart."""

    epochs: tuple[tuple[Any, ...], ...]
    parallelism: int
    batch: int
    ends: bool


class InputSource(SplitSource):
    """Reads an :class:`Input`. A position is the number of epochs read. All records of a key go to one subtask."""

    def __init__(self, given: Input | None, parallelism: int, batch: int) -> None:
        self._given = given
        self.parallelism = parallelism
        self._batch = batch

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that starts after a number of epochs."""
        if self._given is None:
            raise GraphError("the input is only available on the driver")
        return _Enumerator(self._given, int(position or 0))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Return the records in the split, in batches."""
        for start in range(0, len(split.payload), self._batch):
            yield RecordBatch(list(split.payload[start : start + self._batch]))

    def __reduce__(self) -> tuple[Any, ...]:
        return (InputSource, (None, self.parallelism, self._batch))


class _Enumerator(SplitEnumerator):
    def __init__(self, given: Input, start: int) -> None:
        self._given = given
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        if not self.available():
            return []
        dealt: list[list[Any]] = [[] for _ in range(parallelism)]
        for record in self._given.epochs[self._next]:
            dealt[zlib.crc32(record[0].encode()) % parallelism].append(record)
        self._next += 1
        return [Split(part, len(part)) for part in dealt]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._given.ends and not self.available()

    def available(self) -> bool:
        return self._next < len(self._given.epochs)


def draw_input(dice: random.Random, source: int, epochs: int, *, ends: bool) -> Input:
    """Draw records with disorder within the watermark bound; ``source`` keeps the numbers of the inputs distinct."""
    keys = [f"k{number}" for number in range(dice.choice((1, 2, 5, 9)))]
    clock, number = 1000, source * 1_000_000
    made: list[tuple[Any, ...]] = []
    for _ in range(epochs):
        records = []
        for _ in range(dice.choice((0, 1, 4, 8, 15, 25))):
            clock += dice.choice((0, 1, 5, 30, 120))
            number += 1
            records.append((dice.choice(keys), clock - dice.randint(0, DISORDER), number))
        made.append(tuple(records))
    return Input(tuple(made), dice.choice((1, 1, 2, 3)), dice.choice((1, 3, 100)), ends)


@dataclass(frozen=True)
class SimulatedProgram:
    """A program: ``build`` takes the streams ``a`` and ``b``, and returns the streams of the sinks, by name.

    ``ordered`` specifies that the records of one (kind, key) reach the sink through one subtask. A ``random`` program
    emits different records each time, so only the consistency of state and output can be checked.
    """

    build: Callable[[Streams], Mapping[str, DataStream]]
    sources: int = 1
    robust: bool = True
    ordered: bool = True
    random: bool = False


def _first(value: Any) -> Any:
    return value[0]


def _second(value: Any) -> Any:
    return value[1]


def _coarse(value: Any) -> Any:
    return f"c{zlib.crc32(value[1].encode()) % 3}"


def _add(one: Any, two: Any) -> Any:
    return one[0], one[1], one[2] + two[2]


def _everything(streams: Streams) -> Mapping[str, DataStream]:
    return {"main": streams["a"].key_by(_first, Types.STRING()).process(Everything()).uid("everything")}


def _reduce(streams: Streams) -> Mapping[str, DataStream]:
    total = streams["a"].key_by(_first).reduce(_add).uid("reduce")
    return {"main": total.map(lambda record: ("total", record[0], record[2]))}


def _two_exchanges(streams: Streams) -> Mapping[str, DataStream]:
    once = streams["a"].key_by(_first).process(Everything()).uid("once")
    return {"main": once.map(lambda r: ("total", _coarse(r), 1)).key_by(_second).reduce(_add).uid("twice")}


def _windows_of_windows(streams: Streams) -> Mapping[str, DataStream]:
    inner = streams["a"].key_by(_first, Types.STRING()).process(WindowSum(100)).uid("inner")
    coarse = inner.map(lambda r: (_coarse(r), r[2], r[3]))
    return {"main": coarse.key_by(_first).process(WindowSum(300)).uid("outer")}


def _union(streams: Streams) -> Mapping[str, DataStream]:
    both = streams["a"].union(streams["b"])
    return {"main": both.key_by(_first).process(Everything()).uid("both")}


def _diamond(streams: Streams) -> Mapping[str, DataStream]:
    plus = streams["a"].key_by(_first).process(WindowSum(100)).uid("plus").map(lambda r: (r[1], r[2], r[3]))
    spread = streams["a"].rebalance().map(lambda r: (r[0], r[1], -r[2]))
    return {"main": plus.union(spread).key_by(_first).process(WindowSum(200)).uid("joined")}


def _skip_level(streams: Streams) -> Mapping[str, DataStream]:
    slow = streams["a"].key_by(_first).process(WindowSum(100)).uid("slow").map(lambda r: (r[1], r[2], r[3]))
    deep = slow.key_by(_first).process(WindowSum(150)).uid("deep").map(lambda r: (r[1], r[2], r[3]))
    return {"main": deep.connect(streams["a"]).key_by(_first, _first).process(Match()).uid("match")}


def _connected(streams: Streams) -> Mapping[str, DataStream]:
    matched = streams["a"].connect(streams["b"]).key_by(_first, _first, Types.STRING()).process(Match()).uid("match")
    return {"main": matched}


def _side_outputs(streams: Streams) -> Mapping[str, DataStream]:
    sorted_ = streams["a"].key_by(_first).process(Sort(_SMALL)).uid("sort")
    side = sorted_.get_side_output(_SMALL).key_by(_first).process(WindowSum(100)).uid("side")
    return {"main": sorted_, "side": side}


def _widths(streams: Streams) -> Mapping[str, DataStream]:
    wide = streams["a"].key_by(_first).process(WindowSum(50)).uid("wide").set_parallelism(3)
    narrow = wide.map(lambda r: (r[1], r[2], r[3])).key_by(_first).process(WindowSum(200)).uid("narrow")
    return {"main": narrow.set_parallelism(1), "wide": wide.rebalance().map(tuple).set_parallelism(2)}


def _stateless(streams: Streams) -> Mapping[str, DataStream]:
    dealt = streams["a"].shuffle().map(lambda r: ("once", *r)).rescale().map(tuple).set_parallelism(3)
    copied = streams["a"].broadcast().map(lambda r: ("copied", *r)).set_parallelism(2)
    return {"main": dealt.rebalance().map(tuple), "side": copied.global_().map(tuple)}


def _alarms(streams: Streams) -> Mapping[str, DataStream]:
    return {"main": streams["a"].key_by(_first, Types.STRING()).process(Alarm()).uid("alarm")}


def _operator_state(streams: Streams) -> Mapping[str, DataStream]:
    # In the middle of a chain, and after an exchange.
    triples = streams["a"].map(tuple).flat_map(Triples()).uid("triples")
    again = triples.map(lambda r: (r[1], 0, r[2])).rebalance().flat_map(Triples()).uid("again")
    return {"main": triples, "again": again}


def _hoards(streams: Streams) -> Mapping[str, DataStream]:
    return {"main": streams["a"].rebalance().map(Hoard()).uid("hoard")}


def _broadcast(streams: Streams) -> Mapping[str, DataStream]:
    latest = streams["b"].rebalance().map(tuple).broadcast(LATEST)
    return {"main": streams["a"].key_by(_first, Types.STRING()).connect(latest).process(WithLatest()).uid("latest")}


def _random(streams: Streams) -> Mapping[str, DataStream]:
    return {"main": streams["a"].map(RandomAmount()).key_by(_second).process(Sums()).uid("sums")}


def _random_twice(streams: Streams) -> Mapping[str, DataStream]:
    once = streams["a"].map(RandomAmount()).key_by(_second).process(Sums()).uid("sums")
    again = once.rebalance().map(RandomAmount()).key_by(_second).process(Sums()).uid("more-sums")
    return {"main": once, "again": again}


SHAPES: Final[dict[str, SimulatedProgram]] = {
    "everything": SimulatedProgram(_everything),
    "reduce": SimulatedProgram(_reduce),
    "two-exchanges": SimulatedProgram(_two_exchanges, robust=False),
    "windows-of-windows": SimulatedProgram(_windows_of_windows),
    "union": SimulatedProgram(_union, sources=2, robust=False),
    "diamond": SimulatedProgram(_diamond),
    "skip-level": SimulatedProgram(_skip_level, robust=False),
    "connected": SimulatedProgram(_connected, sources=2, robust=False),
    "side-outputs": SimulatedProgram(_side_outputs),
    "widths": SimulatedProgram(_widths, ordered=False),
    "stateless": SimulatedProgram(_stateless, ordered=False),
    "alarms": SimulatedProgram(_alarms),
    "operator-state": SimulatedProgram(_operator_state, robust=False),
    "hoards": SimulatedProgram(_hoards, ordered=False),
    "broadcast": SimulatedProgram(_broadcast, sources=2, robust=False),
    "random": SimulatedProgram(_random, random=True),
    "random-twice": SimulatedProgram(_random_twice, random=True),
}

__all__ = [
    "DICE",
    "DISORDER",
    "SHAPES",
    "WATERMARKS",
    "Input",
    "InputSource",
    "Second",
    "SimulatedProgram",
    "draw_input",
]
