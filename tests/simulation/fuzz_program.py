"""Fuzzed programs as data: a list of operators that can be drawn, printed, evaluated again and made smaller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

#: Operators by how many streams they read.
STATELESS: Final = ("map", "rekey", "flat_map", "filter", "exchange", "split", "retime")
#: Operators that read their input by key.
KEYED: Final = ("reduce", "rolling", "with_state", "process", "window", "window_all", "count_window")
KEYED_OF_TWO: Final = ("co_process", "join", "co_group", "interval_join", "broadcast")
#: Their results depend on event time, which results of windows of counts have none of.
_TIMED: Final = ("retime", "window", "window_all", "join", "co_group", "interval_join", "broadcast")


class Act(NamedTuple):
    """What a process function does if a record's number, or a timer's time, leaves ``rest`` modulo ``every``."""

    do: str
    every: int = 1
    rest: int = 0
    arg: int = 0


@dataclass(frozen=True)
class Node:
    """One operator: which nodes it reads, and what it is given."""

    kind: str
    inputs: tuple[int, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.args.get(name)

    def __repr__(self) -> str:
        return f"Node({self.kind!r}, {self.inputs!r}, {dict(self.args)!r})"


class Raw(NamedTuple):
    """A record of a source."""

    k: str
    n: int
    note: str
    time: int


@dataclass(frozen=True)
class Case:
    """A program, its input, and what happens while it runs. Equal cases have equal verdicts.

    ``epochs`` says for each epoch how many records of each source it has, and what happens in it or after it; records
    that are left come in a last one. ``settings`` are those of the run: parallelism, backend, placement, sizes.
    """

    program: tuple[Node, ...]
    input: tuple[tuple[Raw, ...], ...]
    epochs: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        nodes = "\n".join(f"  {number}: {node!r}" for number, node in enumerate(self.program))
        inputs = "\n".join(f"  {number}: {[tuple(raw) for raw in raws]}" for number, raws in enumerate(self.input))
        epochs = "\n".join(f"  {sizes} {event}" for sizes, event in self.epochs)
        return (
            f"program\n{nodes}\ninput (key, number, note, time)\n{inputs}\nepochs\n{epochs}\nsettings {self.settings}"
        )


def sources(program: Sequence[Node]) -> list[int]:
    return [number for number, node in enumerate(program) if node.kind == "source"]


def leaves(program: Sequence[Node]) -> list[int]:
    """The nodes that no other reads: their records are compared. Of an operator, its side outputs are nodes."""
    read = {number for node in program for number in node.inputs}
    return [number for number in range(len(program)) if number not in read]


def form_of(program: Sequence[Node], number: int) -> str:
    """The form of the records of a node."""
    node = program[number]
    forms = {node["form"]} if node["form"] else {form_of(program, one) for one in node.inputs}
    return forms.pop() if len(forms) == 1 else "mixed"


def is_typed(program: Sequence[Node], number: int) -> bool:
    """Whether the records of a node may have a declared type."""
    node = program[number]
    return bool(node["typed"]) if node["form"] else any(is_typed(program, one) for one in node.inputs)


def has_time(program: Sequence[Node], number: int) -> bool:
    """Whether the records have timestamps that mean something."""
    node = program[number]
    return node.kind != "count_window" and all(has_time(program, one) for one in node.inputs)


def is_single(program: Sequence[Node], number: int) -> bool:
    """Whether one subtask emits all records of a node, in an order that is known."""
    node = program[number]
    if node.kind in ("source", "window_all"):
        return not node["dealt"]
    return node.kind in STATELESS and node["p"] == 1 and is_single(program, node.inputs[0])


def tags_of(node: Node) -> list[str]:
    """The side outputs that a node has."""
    found = ["late"] if node.kind in ("window", "window_all") and node["late"] else []
    if node.kind == "interval_join" and node["late"]:
        found += ["left", "right"]
    if node["policy"] == "side":
        found.append("bad")
    if node.kind in ("process", "co_process", "split"):
        found.append("side")
    return found


def is_valid(program: Sequence[Node]) -> bool:
    """Whether the operators fit together; what is drawn does, what a shrinker leaves of it may not."""
    if not sources(program):
        return False
    for number, node in enumerate(program):
        if any(one >= number for one in node.inputs):
            return False
        if node.kind == "side" and node["tag"] not in tags_of(program[node.inputs[0]]):
            return False
        if node.kind in _TIMED and not all(has_time(program, one) for one in node.inputs):
            return False
        uses_timers = any(act.do in ("t+", "t-") for act in (*(node["script"] or ()), *(node["script2"] or ())))
        if uses_timers and not all(has_time(program, one) for one in node.inputs):
            return False
        by_field = node.kind == "rolling" or node["function"] in ("sum", "min", "max", "min_by", "max_by")
        if by_field and form_of(program, node.inputs[0]) != "tuple":
            return False
        if node["mode"] == "mutate" and not _can_change(program, node):
            return False
        if node.kind == "retime" and not is_single(program, node.inputs[0]):
            return False  # which records are late would be up to the order in which they come
        if node.kind == "union" and not _unites(program, node):
            return False
    return True


def without(program: Sequence[Node], gone: int) -> tuple[Node, ...] | None:
    """The program without a node: whoever read it reads what it read."""
    node = program[gone]
    if not node.inputs and any(gone in other.inputs for other in program):
        return None
    kept = []
    for number, other in enumerate(program):
        if number != gone:
            inputs = tuple(node.inputs[0] if one == gone else one for one in other.inputs)
            kept.append(replace(other, inputs=tuple(one - (one > gone) for one in inputs)))
    return tuple(kept) if is_valid(kept) else None


def _can_change(program: Sequence[Node], node: Node) -> bool:
    return bool(node["form"] != "tuple" and node["form"] == form_of(program, node.inputs[0]))


def _unites(program: Sequence[Node], node: Node) -> bool:
    types = {form_of(program, one) for one in node.inputs if is_typed(program, one)}
    return len(types) < 2
