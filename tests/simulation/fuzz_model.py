"""What a fuzzed program means: one operator after the other over lists, in one thread, as Flink's documentation says.

A stream is a list of records and watermarks. Where Flink leaves the order of records open, :func:`arrived` draws one:
runs with other dice show what a program's result depends on, and only what no run changes is compared.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tests.simulation.fuzz_model_windows import CountWindows, Windows
from tests.simulation.fuzz_program import KEYED, KEYED_OF_TWO, Act, Case, Node, leaves, sources
from tests.simulation.fuzz_records import KEYS, change, digest, form_like, key_of, made, parts

END: Final = (1 << 63) - 1
START: Final = -(1 << 63)


class Record(NamedTuple):
    value: Any
    time: int
    tag: str | None = None
    side: int = 0


class Mark(NamedTuple):
    """A watermark."""

    time: int


Stream = list[Record | Mark]


class PoisonError(Exception):
    """A function raised."""


def run_model(case: Case, seed: int) -> dict[str, list[Any]]:
    """The records of each leaf of the program, in an order that may be, and the state that is left."""
    return _Model(case, random.Random(seed)).run()


class _Model:
    def __init__(self, case: Case, dice: random.Random) -> None:
        self.case = case
        self.dice = dice
        self.streams: list[Stream] = []
        #: By node. ``single``: from one subtask, in order. ``key``: the records of a key are in order. ``none``.
        self.orders: list[str] = []
        self.widths: list[int | None] = []
        #: The state that process functions leave, by node: key and text.
        self.states: dict[int, list[Any]] = {}

    def run(self) -> dict[str, list[Any]]:
        for number, node in enumerate(self.case.program):
            stream = self._node(number, node)
            self.streams.append(stream)
            order, width = self._spread(node)
            self.orders.append(order)
            self.widths.append(width)
        records = {
            f"node {number}": [one.value for one in self._read(number) if isinstance(one, Record)]
            for number in leaves(self.case.program)
        }
        if self.case.settings["batch"]:
            return records  # no state is kept
        return records | {f"state of node {number}": left for number, left in self.states.items()}

    def _spread(self, node: Node) -> tuple[str, int | None]:
        """In which order the records of an operator's output can be relied on, and how many subtasks it has."""
        if node.kind == "source":
            return ("none", None) if node["dealt"] else ("single", 1)
        if node.kind in ("union", "co_map"):
            return "none", node["p"] if node.kind == "co_map" else -1
        if node.kind == "window_all":
            return "single", 1
        order, width = self.orders[node.inputs[0]], self.widths[node.inputs[0]]
        if node.kind == "exchange":
            keeps = node["how"] in ("global", "custom") or (node["how"] == "key_by" and not self.case.settings["batch"])
            if order == "single" and node["p"] == 1:
                return "single", 1
            return ("key" if order == "single" else order) if keeps or node["p"] == 1 else "none", node["p"]
        if node.kind in ("map", "flat_map", "filter", "rekey", "split", "side", "retime"):
            if node["p"] not in (1, width):
                order = "none"
            if node.kind == "rekey" and order == "key":
                order = "none"
            return order, node["p"]
        return "key", None

    def _read(self, number: int, *, by_key: bool = True) -> Stream:
        """The main output of a node, as it arrives at an operator behind an exchange."""
        main: Stream = [one for one in self.streams[number] if isinstance(one, Mark) or one.tag is None]
        if self.case.settings["batch"] and by_key:
            records = [one for one in main if isinstance(one, Record)]
            self.dice.shuffle(records)
            return [*sorted(records, key=lambda record: record.time), Mark(END)]
        return arrived(main, self.orders[number], self.dice)

    def _read_two(self, node: Node) -> Stream:
        """Both inputs in any order; time is the earlier of both.

        One input may be far ahead of the other: fair dice alone would almost never show what depends on that.
        """
        pending = [self._read(one, by_key=node.kind in KEYED_OF_TWO) for one in node.inputs]
        times, reached = [START, START], START
        merged: Stream = []
        second = self.dice.choice((0.5, 0.5, 0.0, 1.0))  # how often the second input is read, while both have records
        while any(pending):
            side = int(self.dice.random() < second) if all(pending) else int(not pending[0])
            one = pending[side].pop(0)
            if isinstance(one, Record):
                merged.append(one._replace(side=side))
                continue
            times[side] = one.time
            if min(times) > reached:
                reached = min(times)
                merged.append(Mark(reached))
        return merged

    def _node(self, number: int, node: Node) -> Stream:
        if node.kind == "source":
            return self._source(number, node)
        if node.kind == "union":
            return [one._replace(side=0) if isinstance(one, Record) else one for one in self._read_two(node)]
        if node.kind == "side":
            return self._side(node)
        if len(node.inputs) == 2:
            operator: Any = {"co_map": _CoMap, "co_process": _Process, "broadcast": _Broadcast}.get(node.kind)
            if node.kind == "interval_join":
                operator = _IntervalJoin
            return self._through(number, self._read_two(node), operator or Windows)
        given = self._read(node.inputs[0], by_key=node.kind in KEYED or node["how"] == "key_by")
        if node.kind in ("window", "window_all"):
            return self._through(number, given, Windows)
        if node.kind == "retime":
            return _retimed(node, given, marks=not self.case.settings["batch"])
        kinds = {
            "process": _Process,
            "with_state": _WithState,
            "reduce": _Reduce,
            "rolling": _Rolling,
            "count_window": CountWindows,
        }
        return self._through(number, given, kinds.get(node.kind, _Stateless))

    def _through(self, number: int, given: Stream, kind: Callable[..., Any]) -> Stream:
        """What an operator makes of a stream; it gets and gives copies, as if each record were serialised."""
        operator = kind(self.case.program[number], self.dice)
        result: Stream = []
        for one in given:
            if isinstance(one, Mark):
                found = operator.advance(one.time)
            else:
                found = operator.take(copy.deepcopy(one.value), one.time, one.side)
            result += [Record(copy.deepcopy(value), time, tag) for value, time, tag in found]
            result += [one] if isinstance(one, Mark) else []
        if kind is _Process:
            self.states[number] = [
                (key, 0, state.told(0)) for key, state in sorted(operator.states.items()) if state.kept()
            ]
        return result

    def _source(self, number: int, node: Node) -> Stream:
        raws = self.case.input[sources(self.case.program).index(number)]
        often = self.dice.random()
        is_batch = self.case.settings["batch"]
        stream: Stream = []
        latest = reached = START
        for raw in raws:
            stream.append(Record(made(node["form"], raw.k, raw.n, raw.note), raw.time))
            latest = max(latest, raw.time)
            if node["punctuated"]:
                mark = raw.time - node["bound"] - 1 if raw.n % node["punctuated"] == 0 else START
            else:
                mark = latest - node["bound"] - 1 if self.dice.random() < often else START
            if mark > reached and not is_batch:
                reached = mark
                stream.append(Mark(mark))
        return [*stream, Mark(END)]

    def _side(self, node: Node) -> Stream:
        found: Stream = []
        for one in self.streams[node.inputs[0]]:
            if isinstance(one, Mark):
                found.append(one)
            elif one.tag == node["tag"]:
                if isinstance(one.value, _PoisonTimer):
                    key, time = one.value
                    value = made(node["form"], key, time, f"timer {time}")
                else:
                    value = made(node["form"], *parts(one.value))
                found.append(Record(value, one.time))
        return found


class _PoisonTimer(NamedTuple):
    key: str
    time: int


def arrived(stream: Stream, order: str, dice: random.Random) -> Stream:
    """The stream as it may come out of an exchange: a watermark may come later than it could, a record never later
    than a watermark that was behind it."""
    if order == "single":
        return list(stream)
    segments: list[list[Record]] = [[]]
    marks = []
    for one in stream:
        if isinstance(one, Mark):
            marks.append(one)
            segments.append([])
        else:
            segments[-1].append(one)
    earlier = dice.random()
    placed: list[list[Record]] = [[] for _ in segments]
    limits: dict[str, int] = {}
    for number in reversed(range(len(segments))):
        for record in reversed(segments[number]):
            key = key_of(record.value) if order == "key" else ""
            place = min(number, limits.get(key, number)) if order == "key" else number
            while place > 0 and dice.random() < earlier:
                place -= 1
            limits[key] = place
            placed[place].append(record)
    result: Stream = []
    for number, records in enumerate(placed):
        records.reverse()
        result += _mixed(records, order, dice)
        result += marks[number : number + 1]
    return result


def _mixed(records: list[Record], order: str, dice: random.Random) -> list[Record]:
    if order == "none":
        return dice.sample(records, len(records))
    queues: dict[str, list[Record]] = {}
    for record in records:
        queues.setdefault(key_of(record.value), []).append(record)
    names = [key_of(record.value) for record in records]
    dice.shuffle(names)
    return [queues[name].pop(0) for name in names]


def _retimed(node: Node, given: Stream, *, marks: bool) -> Stream:
    """New times and watermarks in place of those that were there, but for the last one."""
    reached, stream = START, Stream()
    for one in given:
        if isinstance(one, Mark):
            continue
        number = parts(one.value)[1]
        stream.append(Record(one.value, one.time + number % 5))
        mark = one.time + number % 5 - node["bound"] - 1
        if marks and number % node["punctuated"] == 0 and mark > reached:
            reached = mark
            stream.append(Mark(mark))
    return [*stream, Mark(END)]


Out = tuple[Any, int, str | None]


def _check(node: Node, number: int) -> None:
    if node["policy"] is not None and number % 7 == 3:
        raise PoisonError


def _bad(node: Node, value: Any, time: int) -> list[Out]:
    return [(value, time, "bad")] if node["policy"] == "side" else []


class _Stateless:
    def __init__(self, node: Node, dice: random.Random) -> None:
        self.node = node

    def advance(self, watermark: int) -> list[Out]:
        return []

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        try:
            return [(result, time, tag) for result, tag in self.results(value)]
        except PoisonError:
            return _bad(self.node, value, time)

    def results(self, value: Any) -> list[tuple[Any, str | None]]:
        node = self.node
        key, number, note = parts(value)
        match node.kind:
            case "map":
                _check(node, number)
                return [(made(node["form"], key, node["a"] * number + node["b"], note), None)]
            case "rekey":
                return [(made(node["form"], KEYS[node["a"] * number % len(KEYS)], number, note), None)]
            case "flat_map":
                if number % 3 == 2:
                    _check(node, number)
                counted = range(number % 3)
                # A changed input keeps its form.
                changed = node["mode"] == "mutate" and node["form"] != "tuple"
                form = form_like(value) if changed else node["form"]
                return [(made(form, key, node["a"] * number + count, note), None) for count in counted]
            case "filter":
                _check(node, number)
                return [(value, None)] if number % node["every"] else []
            case "split":
                return [(made(node["form"], key, number, note), None if number % node["every"] else "side")]
        return [(value, None)] * (node["p"] if node["how"] == "broadcast" else 1)


class _CoMap(_Stateless):
    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key, number, note = parts(value)
        try:
            _check(self.node, number)
        except PoisonError:
            return _bad(self.node, value, time)
        return [(made(self.node["form"], key, number + 1 if side == 0 else 2 * number, note), time, None)]


class _Reduce(_Stateless):
    def __init__(self, node: Node, dice: random.Random) -> None:
        super().__init__(node, dice)
        self.last: dict[str, Any] = {}

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key, number, note = parts(value)
        before = self.last.get(key)
        if before is not None:
            try:
                _check(self.node, number)
            except PoisonError:
                return _bad(self.node, value, time)
            if self.node["mutates"] and not isinstance(before, tuple):
                value = copy.deepcopy(before)
                change(value, parts(before)[1] + number)
            else:
                value = made(form_like(before), key, parts(before)[1] + number, note)
        self.last[key] = value
        return [(value, time, None)]


class _WithState(_Stateless):
    def __init__(self, node: Node, dice: random.Random) -> None:
        super().__init__(node, dice)
        self.counts: dict[str, int] = {}

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key, number, note = parts(value)
        seen = self.counts.pop(key, 0) + 1
        if number % 5:
            self.counts[key] = seen
        results = [made(self.node["form"], key, number + seen, note)]
        return [(result, time, None) for result in results * (number % 3 if self.node["mode"] == "flat_map" else 1)]


class _Rolling(_Stateless):
    def __init__(self, node: Node, dice: random.Random) -> None:
        super().__init__(node, dice)
        self.last: dict[str, Any] = {}

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        before = self.last.get(value[0])
        self.last[value[0]] = value if before is None else rolled(self.node["function"], before, value)
        return [(self.last[value[0]], time, None)]


def rolled(function: str, before: Any, value: Any) -> Any:
    """A built-in aggregate of field 1; other fields are those of the first record."""
    if function == "min_by":
        return value if value[1] < before[1] else before
    if function == "max_by":
        return value if value[1] > before[1] else before
    number = before[1] + value[1] if function == "sum" else (min if function == "min" else max)(before[1], value[1])
    return before[0], number, before[2]


class _Keyed:
    """State of a key, as the script of a process function knows it."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.list: list[int] = []
        self.map: dict[int, int] = {}
        self.most: int | None = None
        self.mean: tuple[int, int] | None = None
        self.timers: set[int] = set()

    def act(self, act: Act, number: int, time: int) -> None:
        match act.do:
            case "v+":
                self.value = (self.value or 0) + number
            case "l+":
                self.list.append(number)
            case "l=":
                self.list = [number, act.arg]
            case "m+":
                self.map[number % 4] = self.map.get(number % 4, 0) + 1
            case "m-":
                self.map.pop(number % 4, None)
            case "r+":
                self.most = number if self.most is None else max(self.most, number)
            case "g+":
                total, count = self.mean or (0, 0)
                self.mean = total + number, count + 1
            case "t+":
                self.timers.add(time + act.arg)
            case "t-":
                self.timers.discard(time + act.arg)
            case _:
                self.clear(act.do[0])

    def clear(self, state: str) -> None:
        match state:
            case "v":
                self.value = None
            case "l":
                self.list = []
            case "m":
                self.map = {}
            case "r":
                self.most = None
            case "g":
                self.mean = None

    def kept(self) -> bool:
        """Whether there is any."""
        return self.told(0) != _Keyed().told(0)

    def told(self, time: int) -> str:
        mean = None if self.mean is None else ("", self.mean[0] % 1000, f"of {self.mean[1]}")
        return f"{time} {self.value} {self.list} {sorted(self.map.items())} {self.most} {mean}"


class _Process:
    """Process functions of one and two inputs."""

    def __init__(self, node: Node, dice: random.Random) -> None:
        self.node, self.dice = node, dice
        self.states: dict[str, _Keyed] = {}

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key, number, _ = parts(value)
        script = self.node["script2"] if side else self.node["script"]
        played = self._play(script, key, number, time)
        return _bad(self.node, value, time) if played is None else played

    def advance(self, watermark: int) -> Iterator[Out]:
        while due := [(time, key) for key, state in self.states.items() for time in state.timers if time <= watermark]:
            first = min(time for time, _ in due)
            key = self.dice.choice([key for time, key in due if time == first])
            self.states[key].timers.discard(first)
            played = self._play(self.node["timer_script"], key, first, first)
            yield from _bad(self.node, _PoisonTimer(key, first), first) if played is None else played

    def _play(self, script: Sequence[Act], key: str, number: int, time: int) -> list[Out] | None:
        """What the script emits; None, with all it did taken back, if it raises."""
        state = self.states.setdefault(key, _Keyed())
        before, out = copy.deepcopy(state), []
        for act in script:
            if number % act.every != act.rest:
                continue
            if act.do == "raise":
                if self.node["policy"] is not None:
                    self.states[key] = before
                    return None
            elif act.do in ("emit", "side"):
                text = state.told(time)
                tag = "side" if act.do == "side" else None
                out.append((made(self.node["form"], key, digest(text), text), time, tag))
            else:
                state.act(act, number, time)
        return out


class _Broadcast:
    def __init__(self, node: Node, dice: random.Random) -> None:
        self.node, self.dice = node, dice
        self.rules: dict[int, int] = {}
        self.seen: dict[str, int] = {}
        self.timers: set[tuple[int, str]] = set()

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key, number, _ = parts(value)
        if side == 0:
            self.seen[key] = self.seen.get(key, 0) + number
            self.timers.add((time + self.node["delay"], key))
        elif self.node["clears"] and number % 5 == 0:
            self.rules.pop(number % 4, None)
        else:
            self.rules[number % 4] = self.rules.get(number % 4, 0) + number
        return []

    def advance(self, watermark: int) -> Iterator[Out]:
        while due := sorted(timer for timer in self.timers if timer[0] <= watermark):
            time, key = due[0]
            self.timers.remove(due[0])
            text = f"{time} {self.seen[key]} {sorted(self.rules.items())}"
            yield made(self.node["form"], key, digest(text), text), time, None


class _IntervalJoin:
    def __init__(self, node: Node, dice: random.Random) -> None:
        self.node = node
        self.low = node["low"] + node["open"][0]
        self.high = node["high"] - node["open"][1]
        self.kept: tuple[list[Any], list[Any]] = ([], [])
        self.watermark = START

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        if time < self.watermark:
            return [(value, time, ("left", "right")[side])] if self.node["late"] else []
        self.kept[side].append((value, time))
        found = []
        for other, at in sorted(self.kept[1 - side], key=lambda one: one[1]):
            left, right = ((value, time), (other, at)) if side == 0 else ((other, at), (value, time))
            if key_of(value) == key_of(other) and self.low <= right[1] - left[1] <= self.high:
                found.append(self._pair(left, right))
        return found

    def _pair(self, left: tuple[Any, int], right: tuple[Any, int]) -> Out:
        key, one, note1 = parts(left[0])
        _, two, note2 = parts(right[0])
        text = f"{note1}@{left[1]}+{note2}@{right[1]}"
        return made(self.node["form"], key, 3 * one + two, text), max(left[1], right[1]), None

    def advance(self, watermark: int) -> list[Out]:
        self.watermark = watermark
        lefts, rights = self.kept
        lefts[:] = [one for one in lefts if one[1] + max(self.high, 0) > watermark]
        rights[:] = [one for one in rights if one[1] + max(-self.low, 0) > watermark]
        return []
