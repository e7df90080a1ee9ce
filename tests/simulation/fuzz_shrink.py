"""Makes a failing case small: fewer operators, records, epochs and events, plainer settings and arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.simulation.fuzz_program import Case, Node, is_valid, sources, without

_PLAIN: Final = {
    "parallelism": 1,
    "workers": 1,
    "moving": False,
    "backend": "hashmap",
    "merge_after": 8,
    "parcel": None,
    "inline": None,
    "chaining": True,
    "batch": False,
}
#: Arguments of operators that say nothing special.
_PLAIN_ARGS: Final = {
    "p": None,
    "policy": None,
    "typed": False,
    "form": "tuple",
    "trigger": ("default",),
    "evictor": None,
    "lateness": 0,
    "late": False,
    "dealt": False,
    "mode": "new",
    "state": "pickled",
    "key": "text",
    "open": (False, False),
    "every": 2,
    "a": 1,
    "b": 0,
}


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float = 120.0) -> Case:
    """The smallest case found in the time that still fails; each step is one that a reader would try."""
    until = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < until:
        found = False
        for smaller in _smaller(case):
            if time.monotonic() > until:
                break
            if fails(smaller):
                case, found = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    yield from _without_nodes(case)
    yield from _without_epochs(case)
    yield from _without_records(case)
    for name, plain in _PLAIN.items():
        if case.settings[name] != plain:
            yield replace(case, settings={**case.settings, name: plain})
    yield from _plainer_nodes(case)


def _without_nodes(case: Case) -> Iterator[Case]:
    for number in reversed(range(len(case.program))):
        program = without(case.program, number)
        if program is None:
            continue
        if case.program[number].kind != "source":
            yield replace(case, program=program)
            continue
        place = sources(case.program).index(number)
        epochs = tuple((_cut(sizes, place), event) for sizes, event in case.epochs)
        yield replace(case, program=program, input=_cut(case.input, place), epochs=epochs)


def _without_epochs(case: Case) -> Iterator[Case]:
    """Records of an epoch that is gone come with the next one, or at the end."""
    epochs = case.epochs
    for number in range(len(epochs)):
        yield replace(case, epochs=(*epochs[:number], *epochs[number + 1 :]))
        if number + 1 < len(epochs):
            sizes = tuple(map(sum, zip(epochs[number][0], epochs[number + 1][0], strict=True)))
            yield replace(case, epochs=(*epochs[:number], (sizes, epochs[number + 1][1]), *epochs[number + 2 :]))
        if epochs[number][1]:
            yield replace(case, epochs=(*epochs[:number], (epochs[number][0], ()), *epochs[number + 1 :]))


def _without_records(case: Case) -> Iterator[Case]:
    for place, raws in enumerate(case.input):
        length = len(raws) // 2
        while length:
            for start in range(0, len(raws), length):
                yield _shorter(case, place, start, min(length, len(raws) - start))
            length //= 2


def _shorter(case: Case, place: int, start: int, length: int) -> Case:
    """Without some records of an input; epochs keep the others that they had."""
    raws = case.input[place]
    epochs, begin = [], 0
    for sizes, event in case.epochs:
        size = sizes[place]
        gone = max(0, min(begin + size, start + length) - max(begin, start))
        epochs.append(((*sizes[:place], size - gone, *sizes[place + 1 :]), event))
        begin += size
    kept = raws[:start] + raws[start + length :]
    return replace(case, input=(*case.input[:place], kept, *case.input[place + 1 :]), epochs=tuple(epochs))


def _plainer_nodes(case: Case) -> Iterator[Case]:
    for number, node in enumerate(case.program):
        for args in _plainer_args(node):
            program = (*case.program[:number], replace(node, args=args), *case.program[number + 1 :])
            if is_valid(program):
                yield replace(case, program=program)


def _plainer_args(node: Node) -> Iterator[dict[str, Any]]:
    for name, plain in _PLAIN_ARGS.items():
        if name in node.args and node.args[name] != plain and not (name == "p" and node["how"] == "broadcast"):
            yield {**node.args, name: plain}
    for name in ("script", "script2", "timer_script"):
        acts = node.args.get(name) or ()
        for place in range(len(acts)):
            yield {**node.args, name: _cut(acts, place)}
            if acts[place].every > 1:
                yield {**node.args, name: (*acts[:place], acts[place]._replace(every=1, rest=0), *acts[place + 1 :])}


def _cut(items: Any, place: int) -> Any:
    return (*items[:place], *items[place + 1 :])
