"""What windows mean: a list of records for each key and window, a trigger that is asked, timers in a set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.fuzz_program import Node
from tests.simulation.fuzz_records import digest, form_like, key_of, made, parts

Extent = tuple[int, int]
Place = tuple[str, Extent]
Out = tuple[Any, int, str | None]
_START = -(1 << 63)


class Windows:
    """Windows by event time, window joins and co-groups."""

    def __init__(self, node: Node, dice: random.Random) -> None:
        self.node, self.dice = node, dice
        self.kind, *self.sizes = node["assigner"]
        self.lateness = node["lateness"] or 0
        self.trigger: tuple[Any, ...] = node["trigger"] or ("default",)
        self.watermark = _START
        #: Records with their times and the number of their stream.
        self.contents: dict[Place, list[tuple[Any, int, int]]] = {}
        self.open: set[Place] = set()
        self.counts: dict[Place, int] = {}
        self.next_fire: dict[Place, int] = {}
        self.timers: set[tuple[int, Place]] = set()
        self.fired: dict[str, int] = {}

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key = "all" if self.node.kind == "window_all" else key_of(value)
        out, taken = [], False
        for extent in self._assign(time):
            place = self._merge(key, extent) if self.kind == "session" else (key, extent)
            if self._gone_at(place) <= self.watermark:
                self.open.discard(place)
                continue
            taken = True
            self.open.add(place)
            self.contents.setdefault(place, []).append((value, time, side))
            fires = self._on_element(place, time)
            if fires:
                out += self._fire(place)
            self.timers.add((self._gone_at(place), place))
        if not taken and self.node["late"]:
            out.append((value, time, "late"))
        return out

    def advance(self, watermark: int) -> Iterator[Out]:
        self.watermark = watermark
        while due := [timer for timer in self.timers if timer[0] <= watermark]:
            first = min(time for time, _ in due)
            place = self.dice.choice(sorted(place for time, place in due if time == first))
            self.timers.remove((first, place))
            if self._on_time(place, first):
                yield from self._fire(place)
            if first == self._gone_at(place):
                self._forget(place)

    # --- assigners

    def _assign(self, time: int) -> list[Extent]:
        if self.kind == "session":
            return [(time, time + self.sizes[0])]
        if self.kind == "tumbling":
            size, offset = self.sizes
            start = time - (time - offset) % size
            return [(start, start + size)]
        size, slide = self.sizes
        last = time - time % slide
        return [(start, start + size) for start in range(last, time - size, -slide)]

    def _merge(self, key: str, extent: Extent) -> Place:
        """Sessions that overlap or touch become one."""
        merged = [place for place in self.open if place[0] == key and _touch(place[1], extent)]
        starts, ends = zip(extent, *(place[1] for place in merged), strict=True)
        cover = key, (min(starts), max(ends))
        if merged == [cover]:
            return cover
        contents, count = [], 0
        for place in sorted(merged):
            contents += self.contents.get(place, [])
            count += self.counts.get(place, 0)
            self._forget(place)
        if merged:
            self.open.add(cover)
            if contents:
                self.contents[cover] = contents
            if count:
                self.counts[cover] = count
            if self._by_time() and _last(cover) > self.watermark:
                self.timers.add((_last(cover), cover))
            self.timers.add((self._gone_at(cover), cover))
        return cover

    # --- triggers

    def _by_time(self) -> bool:
        return not self.trigger[0].endswith("count")

    def _on_element(self, place: Place, time: int) -> bool:
        if not self._by_time():
            self.counts[place] = self.counts.get(place, 0) + 1
            if self.counts[place] < self.trigger[1]:
                return False
            del self.counts[place]
            return True
        if _last(place) <= self.watermark:
            return True
        self.timers.add((_last(place), place))
        if self.trigger[0].endswith("continuous") and place not in self.next_fire:
            self._continue(place, time - time % self.trigger[1])
        return False

    def _continue(self, place: Place, time: int) -> None:
        self.next_fire[place] = min(time + self.trigger[1], _last(place))
        self.timers.add((self.next_fire[place], place))

    def _on_time(self, place: Place, time: int) -> bool:
        if not self._by_time():
            return False
        if time == _last(place):
            return True
        if self.next_fire.get(place) != time:
            return False
        self._continue(place, time)
        return True

    # --- results

    def _fire(self, place: Place) -> list[Out]:
        if place not in self.contents:
            return []
        contents = self.contents[place]
        evictor = self.node["evictor"]
        if evictor is not None and not evictor[2]:
            contents = self.contents[place] = _evicted(evictor, contents)
        out: list[Out] = [(value, _last(place), None) for value in self._results(place, contents)]
        if evictor is not None and evictor[2]:
            self.contents[place] = _evicted(evictor, contents)
        if self.trigger[0].startswith("purging"):
            del self.contents[place]
        return out

    def _results(self, place: Place, contents: list[tuple[Any, int, int]]) -> list[Any]:
        node, (key, (start, end)) = self.node, place
        values = [value for value, _, _ in contents]
        if node.kind in ("join", "co_group"):
            firsts = [value for value, _, side in contents if side == 0]
            return self._of_two(key, firsts, [value for value, _, side in contents if side == 1])
        function, _, last = node["function"].partition("+")
        if function == "reduce" and values:
            values = [_reduced(values)]
        elif function == "aggregate":
            key_of_all = max([key_of(value) for value in values], default="")
            total = sum(parts(value)[1] for value in values) % 1000
            values = [(key_of_all, total, f"of {len(values)}")]
        elif function in ("sum", "min", "max", "min_by", "max_by"):
            return [_rolled(function, values)] if values else []
        if function in ("reduce", "aggregate") and not last:
            return values
        if (last or function) == "process":
            self.fired[key] = self.fired.get(key, 0) + 1
            text = f"[{start},{end}) {self.fired[key]} {self._told(values)}"
        else:
            text = f"[{start},{end}) {self._told(values)}"
        return [made(node["form"], key, digest(text), text)]

    def _of_two(self, key: str, firsts: list[Any], seconds: list[Any]) -> list[Any]:
        form = self.node["form"]
        if self.node.kind == "co_group":
            text = f"{self._told(firsts)} | {self._told(seconds)}"
            return [made(form, key, digest(text), text)]
        pairs = [(parts(first), parts(second)) for first in firsts for second in seconds]
        return [made(form, key, 3 * one[1] + two[1], f"{one[2]}+{two[2]}") for one, two in pairs]

    def _told(self, values: list[Any]) -> str:
        texts = [f"{number}/{note}" for _, number, note in map(parts, values)]
        return " ".join(sorted(texts) if self.node["sorted"] else texts)

    def _gone_at(self, place: Place) -> int:
        return _last(place) + self.lateness

    def _forget(self, place: Place) -> None:
        self.open.discard(place)
        self.contents.pop(place, None)
        self.counts.pop(place, None)
        self.next_fire.pop(place, None)
        self.timers = {timer for timer in self.timers if timer[1] != place}


class CountWindows:
    """Windows of a number of records."""

    def __init__(self, node: Node, dice: random.Random) -> None:
        self.node = node
        self.contents: dict[str, list[Any]] = {}
        self.counts: dict[str, int] = {}

    def advance(self, watermark: int) -> list[Out]:
        return []

    def take(self, value: Any, time: int, side: int) -> list[Out]:
        key, size, slide = key_of(value), self.node["size"], self.node["slide"]
        contents = self.contents.setdefault(key, [])
        contents.append(value)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] < (slide or size):
            return []
        self.counts[key] = 0
        text = " ".join(f"{number}/{note}" for _, number, note in map(parts, contents[-size:]))
        self.contents[key] = contents[-size:] if slide else []
        return [(made(self.node["form"], key, digest(text), text), (1 << 63) - 1, None)]


def _last(place: Place) -> int:
    """The last moment of a window."""
    return place[1][1] - 1


def _touch(one: Extent, other: Extent) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _evicted(evictor: tuple[str, int, bool], contents: list[tuple[Any, int, int]]) -> list[tuple[Any, int, int]]:
    kind, size, _ = evictor
    if kind == "count":
        return contents[-size:]
    latest = max((time for _, time, _ in contents), default=0)
    return [one for one in contents if one[1] > latest - size]


def _reduced(values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    key = max(key_of(value) for value in values)
    return made(form_like(values[0]), key, sum(parts(value)[1] for value in values), "")


def _rolled(function: str, values: list[Any]) -> Any:
    first, numbers = values[0], [value[1] for value in values]
    if function in ("min_by", "max_by"):
        wanted = min(numbers) if function == "min_by" else max(numbers)
        return values[numbers.index(wanted)]
    number = sum(numbers) if function == "sum" else (min if function == "min" else max)(numbers)
    return first[0], number, first[2]
