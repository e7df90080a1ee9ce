"""Draws cases from a seed; ``TIDEMILL_FUZZ_WITHOUT`` leaves out by name what is known to be broken."""

from __future__ import annotations

import os
import random
from typing import Any, Final

from tests.simulation.fuzz_program import (
    STATELESS,
    Act,
    Case,
    Node,
    Raw,
    form_of,
    has_time,
    is_single,
    is_valid,
    tags_of,
)
from tests.simulation.fuzz_records import FORMS, KEY_KINDS, KEYS, MODULUS
from tidemill.faults import POINTS

#: What can be left out: functions that change their input or emit an object again, StopIteration raised by functions,
#: and workers that are lost while state is in RocksDB.
SWITCHES: Final = ("mutable", "stop-iteration", "rocksdb-kills")
#: Reached only now and then: faults there would mostly not strike.
_RARE: Final = ("retention.delete", "snapshot.published", "lineage.before", "lineage.after")
_POINTS: Final = tuple(point for point in POINTS if point not in _RARE)
_MOST_NODES: Final = 9
_LONGEST_TIME: Final = 12


def switched_off() -> frozenset[str]:
    """The names in ``TIDEMILL_FUZZ_WITHOUT``."""
    names = frozenset(name for name in os.environ.get("TIDEMILL_FUZZ_WITHOUT", "").split(",") if name)
    if unknown := names - set(SWITCHES):
        raise ValueError(f"TIDEMILL_FUZZ_WITHOUT has {sorted(unknown)}; known are {list(SWITCHES)}")
    return names


def draw(seed: int, without: frozenset[str] | None = None) -> Case:
    """The case of a seed."""
    return _Draw(seed, switched_off() if without is None else without).case()


class _Draw:
    def __init__(self, seed: int, without: frozenset[str]) -> None:
        self.dice = random.Random(seed)
        self.without = without
        self.program: list[Node] = []

    def case(self) -> Case:
        dice = self.dice
        dealt = dice.random() < 0.2
        exact = not dealt and dice.random() < 0.5
        count = 1 if exact and dice.random() < 0.7 else dice.choice((1, 2, 2))
        disorder = dice.choice((0, 3, 10, 25))
        bound = dice.choice((0, disorder // 2, disorder)) if exact else disorder
        for _ in range(count):
            self._add(
                Node(
                    "source",
                    (),
                    {
                        "form": dice.choice(FORMS),
                        "typed": dice.random() < 0.5,
                        "punctuated": dice.choice((1, 2, 5)) if exact else 0,
                        "bound": bound,
                        "dealt": dealt,
                    },
                )
            )
        for _ in range(dice.randint(1, _MOST_NODES - count)):
            self._operator()
        inputs = tuple(self._input(number, disorder) for number in range(count))
        settings: dict[str, Any] = {
            "parallelism": dice.choice((1, 2, 2, 3, 4)),
            "workers": dice.choice((1, 2, 2, 3)),
            "moving": dice.random() < 0.2,
            "backend": dice.choice(("hashmap", "rocksdb")),
            "merge_after": dice.choice((2, 3, 8)),
            "parcel": dice.choice((None, None, "64b")),
            "inline": dice.choice((None, None, "0b")),
            "chaining": dice.random() < 0.8,
        }
        # A final result of a rolling aggregate has no time: what such programs mean in BATCH mode is tested elsewhere.
        rolls = any(node.kind in ("reduce", "rolling") for node in self.program)
        epochs = self._epochs(inputs, settings)
        settings["batch"] = not rolls and dice.random() < 0.15
        return Case(tuple(self.program), inputs, epochs, settings)

    # --- operators

    def _operator(self) -> None:
        for _ in range(20):
            node = self._drawn()
            if node is not None and is_valid([*self.program, node]):
                self._add(node)
                return

    def _drawn(self) -> Node | None:
        dice = self.dice
        # Mostly after what was added last, so that programs are deep; streams with several readers come from the rest.
        at = len(self.program) - 1 if dice.random() < 0.6 else dice.randrange(len(self.program))
        kind = dice.choices(
            ("stateless", "keyed", "rolling", "process", "window", "window_all", "count_window", "two", "side"),
            (6, 2, 1, 4, 5, 1, 1, 4, 3),
        )[0]
        if kind == "stateless":
            return self._stateless(at)
        if kind == "two":
            return self._two(at, dice.randrange(len(self.program)))
        if kind == "side":
            owners = [number for number, node in enumerate(self.program) if tags_of(node)]
            if not owners:
                return None
            at = dice.choice(owners)
            return Node(
                "side", (at,), {"tag": dice.choice(tags_of(self.program[at])), "p": self._parallelism(), **self._form()}
            )
        if kind in ("window", "window_all"):
            return self._window(kind, at)
        if kind == "process":
            return Node(
                "process", (at,), {**self._script(at), **self._policy(), **self._form(), "state": self._state()}
            )
        if kind == "rolling":
            return Node("rolling", (at,), {"function": dice.choice(("sum", "min", "max", "min_by", "max_by"))})
        if kind == "count_window":
            size = dice.randint(1, 4)
            slide = dice.choice((0, 0, dice.randint(1, 4)))
            return Node("count_window", (at,), {"size": size, "slide": slide, **self._form(), **self._key()})
        if dice.random() < 0.5:
            return Node("with_state", (at,), {"mode": dice.choice(("map", "flat_map")), **self._key(), **self._form()})
        mutates = dice.random() < 0.3 and "mutable" not in self.without
        return Node("reduce", (at,), {**self._policy(), "mutates": mutates, **self._key()})

    def _stateless(self, at: int) -> Node:
        dice = self.dice
        kind = dice.choice(STATELESS)
        args: dict[str, Any] = {"p": self._parallelism()}
        if kind in ("map", "flat_map"):
            modes = ("new", "new") if "mutable" in self.without else ("new", "new", "mutate", "reuse")
            args |= {"mode": dice.choice(modes), "a": dice.randint(1, 5), "b": dice.randint(0, 9), **self._form()}
            if args["mode"] == "mutate":
                args["form"] = form_of(self.program, at)
            args |= self._policy()
        elif kind == "rekey":
            args |= {"a": dice.randint(1, 3), **self._form()}
        elif kind == "filter":
            args |= {"every": dice.randint(2, 4), **self._policy()}
        elif kind == "retime":
            args |= {"p": 1, "bound": dice.choice((0, 5, 40)), "punctuated": dice.choice((1, 3))}
        elif kind == "split":
            args |= {"every": dice.randint(2, 4), **self._form()}
        else:
            args["how"] = dice.choice(("rebalance", "shuffle", "rescale", "broadcast", "global", "custom", "key_by"))
            if args["how"] == "broadcast":
                args["p"] = dice.randint(1, 3)
        return Node(kind, (at,), args)

    def _two(self, at: int, other: int) -> Node:
        dice = self.dice
        kinds = ("union", "co_map", "co_process", "join", "co_group", "interval_join", "broadcast")
        kind = dice.choice(kinds)
        args: dict[str, Any] = {} if kind == "union" else self._form()
        if kind == "union":
            return Node(kind, (at, other), args)
        if kind == "co_map":
            args |= {"p": self._parallelism(), **self._policy()}
        elif kind == "co_process":
            args |= {**self._script(at), "script2": self._acts(timers=has_time(self.program, other)), **self._policy()}
            args |= self._state()
        elif kind in ("join", "co_group"):
            args |= {"assigner": self._assigner(), "sorted": True, **self._key()}
        elif kind == "interval_join":
            low = dice.randint(-10, 5)
            args |= {
                "low": low,
                "high": low + dice.randint(1, 15),
                "open": (dice.random() < 0.3, dice.random() < 0.3),
                "late": dice.random() < 0.5,
                **self._key(),
            }
        else:
            args |= {"delay": dice.choice((1, 20, 10_000)), "clears": dice.random() < 0.3, **self._key()}
        return Node(kind, (at, other), args)

    def _window(self, kind: str, at: int) -> Node:
        dice = self.dice
        assigner = self._assigner()
        # When windows fire early, their results depend on the order of the records: mostly where that is known.
        in_order = is_single(self.program, at) or dice.random() < 0.2
        triggers: list[tuple[Any, ...]] = [("default",)] * 3 + [("purging default",)]
        if in_order:
            triggers += [("count", dice.randint(1, 3)), ("purging count", dice.randint(1, 3))]
        if in_order and assigner[0] != "session":
            triggers += [("continuous", dice.randint(2, 6)), ("purging continuous", dice.randint(2, 6))]
        evictors: list[tuple[Any, ...] | None] = [None] * 6
        evictors += [
            ("count", dice.randint(1, 3), dice.random() < 0.5),
            ("time", dice.randint(1, 9), dice.random() < 0.5),
        ]
        functions = ["reduce", "aggregate", "apply", "process", "reduce+process", "aggregate+process"]
        functions += ["aggregate+apply"] if kind == "window" else []
        if assigner[0] == "session":  # in which order the parts of merged sessions are is not said
            evictors = [one for one in evictors if one is None or one[0] != "count"]
        elif dice.random() < 0.5:
            functions += ["sum", "min", "max", "min_by", "max_by"]
        function = dice.choice(functions)
        evictor = dice.choice(evictors)
        args = {
            "assigner": assigner,
            "trigger": dice.choice(triggers),
            "evictor": evictor,
            "lateness": dice.choice((0, 0, dice.randint(1, 15))),
            "late": dice.random() < 0.6,
            "function": function,
            "sorted": assigner[0] == "session",
            **self._key(),
        }
        if function == "aggregate":
            args |= {"form": "tuple", "typed": False}
        elif "+" in function or function in ("apply", "process"):
            args |= self._form()
        return Node(kind, (at,), args)

    def _assigner(self) -> tuple[Any, ...]:
        dice = self.dice
        kind = dice.choice(("tumbling", "sliding", "session"))
        size = dice.randint(2, 14)
        if kind == "tumbling":
            return kind, size, dice.choice((0, 0, 1))
        if kind == "sliding":
            return kind, size, dice.randint(max(1, size // 4), size)
        return kind, size

    def _script(self, at: int) -> dict[str, Any]:
        timed = has_time(self.program, at)
        return {"script": self._acts(timers=timed), "timer_script": self._acts(timers=False) if timed else ()}

    def _acts(self, *, timers: bool) -> tuple[Act, ...]:
        dice = self.dice
        kinds = ["v+", "v+", "v0", "l+", "l+", "l0", "l=", "m+", "m+", "m-", "m0", "r+", "r0", "g+", "g0"]
        kinds += ["t+", "t+", "t+", "t-"] if timers else []
        acts = []
        for _ in range(dice.randint(1, 6)):
            do = dice.choice(kinds)
            rare = do[-1] in "0-="
            every = dice.choice((3, 4, 5)) if rare else dice.choice((1, 1, 2, 3))
            acts.append(Act(do, every, dice.randrange(every), dice.randint(0, _LONGEST_TIME)))
        acts.insert(dice.randrange(len(acts) + 1), Act("emit", dice.choice((1, 1, 2)), 0))
        if dice.random() < 0.3:
            acts.insert(dice.randrange(len(acts) + 1), Act("side", 3, dice.randrange(3)))
        if dice.random() < 0.4:
            acts.insert(dice.randrange(len(acts) + 1), Act("raise", 7, dice.randrange(7)))
        return tuple(acts)

    def _policy(self) -> dict[str, Any]:
        """Whether a function raises, what, and what becomes of the record."""
        dice = self.dice
        raised = ["ValueError", "KeyError"] + ([] if "stop-iteration" in self.without else ["StopIteration"])
        return {"policy": dice.choice(("skip", "side", None, None)), "raised": dice.choice(raised)}

    def _form(self) -> dict[str, Any]:
        return {"form": self.dice.choice(FORMS), "typed": self.dice.random() < 0.5}

    def _state(self) -> dict[str, Any]:
        return {"state": self.dice.choice(("typed", "pickled")), **self._key()}

    def _key(self) -> dict[str, Any]:
        return {"key": self.dice.choice(KEY_KINDS)}

    def _parallelism(self) -> int | None:
        return self.dice.choice((None, None, 1, 1, 1, 1, 1, 2))

    def _add(self, node: Node) -> None:
        self.program.append(node)

    # --- input and what happens

    def _input(self, source: int, disorder: int) -> tuple[Raw, ...]:
        dice = self.dice
        keys = dice.sample(KEYS, dice.randint(1, len(KEYS)))
        now, raws = dice.choice((0, 0, -30)), []
        for number in range(dice.choice((1, 8, 20, 30, 40))):
            now += dice.choice((0, 0, 1, 2, 5, 9))
            time = now - dice.randint(0, disorder)
            raws.append(Raw(dice.choice(keys), dice.randrange(MODULUS), f"{source}.{number}", time))
        return tuple(raws)

    def _epochs(self, inputs: tuple[tuple[Raw, ...], ...], settings: dict[str, Any]) -> Any:
        dice = self.dice
        count = dice.choice((1, 2, 4, 7, 12))
        cuts = [sorted(dice.randint(0, len(raws)) for _ in range(count - 1)) for raws in inputs]
        edges = [[0, *cut, len(raws)] for cut, raws in zip(cuts, inputs, strict=True)]
        sizes = [tuple(edge[epoch + 1] - edge[epoch] for edge in edges) for epoch in range(count)]
        calm = dice.random() < 0.2
        backends = {settings["backend"]}
        return tuple((size, () if calm else self._event(backends)) for size in sizes)

    def _event(self, backends: set[str]) -> tuple[Any, ...]:
        dice = self.dice
        kind = dice.choices(
            ("none", "crash", "kill", "rescale", "restart", "backend", "savepoint", "flaky"), (10, 4, 2, 2, 2, 1, 1, 1)
        )[0]
        if kind == "crash":
            return kind, dice.choice(_POINTS), dice.choice((0, 0, 1, 2, 5))
        if kind == "kill":
            return (kind, dice.randrange(3)) if not ("rocksdb-kills" in self.without and "rocksdb" in backends) else ()
        if kind in ("rescale", "restart", "savepoint"):
            return kind, dice.randint(1, 5)
        if kind == "backend":
            if "rocksdb-kills" in self.without and "rocksdb" not in backends:
                return ()  # workers may have been killed before
            backend = dice.choice(("hashmap", "rocksdb"))
            backends.add(backend)
            return kind, backend
        return (kind, dice.randint(0, 20)) if kind == "flaky" else ()
