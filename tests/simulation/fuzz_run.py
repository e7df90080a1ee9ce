"""Runs a case in the harness and in the model, and compares."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.simulation.fuzz_build import builder
from tests.simulation.fuzz_functions import FLAKY, FlakyError, Mean
from tests.simulation.fuzz_model import run_model
from tests.simulation.fuzz_program import Case, leaves
from tests.simulation.fuzz_records import key_of, name_of
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving

#: Operators that need no state any more when event time has come to its end.
_ENDING: Final = ("window", "window_all", "join", "co_group", "interval_join")
_FEW_ORDERS: Final = 4
_MANY_ORDERS: Final = 150


@dataclass
class Verdict:
    """What a run showed. ``compared`` says how each output was compared: in order, as a bag, or not at all."""

    problem: str | None = None
    compared: dict[str, str] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    results: int = 0


def check(case: Case) -> Verdict:
    """Run a case; the verdict has a problem if it gives anything that it may not."""
    verdict = Verdict()
    try:
        found = _run(case, verdict.events)
    except Exception as error:
        verdict.problem = f"{type(error).__name__}: {_told(error)}"
        return verdict
    orders = [run_model(case, seed) for seed in range(_FEW_ORDERS)]
    for leaf in orders[0]:
        how = _comparable([order[leaf] for order in orders])
        if how and _seen(how, found[leaf]) != _seen(how, orders[0][leaf]):
            # The order may be one that the few did not show.
            more = [run_model(case, seed)[leaf] for seed in range(_FEW_ORDERS, _MANY_ORDERS)]
            how = _comparable([orders[0][leaf], *more])
            if how and _seen(how, found[leaf]) != _seen(how, orders[0][leaf]):
                verdict.problem = _difference(leaf, how, orders[0][leaf], found[leaf])
                return verdict
        verdict.compared[leaf] = how or "not at all"
        verdict.results += len(found[leaf])
    return verdict


# --- comparing


def _comparable(orders: list[list[Any]]) -> str | None:
    """The most that all runs of the model agree on."""
    for how in ("in order", "as a bag"):
        if all(_seen(how, one) == _seen(how, orders[0]) for one in orders[1:]):
            return how
    return None


def _seen(how: str, values: list[Any]) -> Any:
    if how == "as a bag":
        return Counter(map(repr, values))
    by_key: dict[str, list[str]] = {}
    for value in values:
        by_key.setdefault(key_of(value), []).append(repr(value))
    return by_key


def _difference(leaf: str, how: str, wanted: list[Any], found: list[Any]) -> str:
    missing, more = (
        _seen("as a bag", wanted) - _seen("as a bag", found),
        _seen("as a bag", found) - _seen("as a bag", wanted),
    )
    told = [f"{leaf}, compared {how}: {len(wanted)} in the model, {len(found)} in the job"]
    told += [f"  missing: {text}" for text in _first(missing.elements())]
    told += [f"  not in the model: {text}" for text in _first(more.elements())]
    if not missing and not more:
        expected, got = _seen(how, wanted), _seen(how, found)
        for key in expected:
            if expected[key] != got[key]:
                told += [f"  key {key} in the model: {expected[key][:8]}", f"  key {key} in the job:   {got[key][:8]}"]
                break
    return "\n".join(told)


def _first(texts: Iterable[str]) -> list[str]:
    return sorted(texts)[:6]


def _told(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    causes = [line.strip() for line in lines if "Error:" in line]
    return " | ".join([lines[0], *causes[-2:]])[:600]


# --- running


def _run(case: Case, events: Counter[str]) -> dict[str, list[Any]]:
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    FLAKY.left = None
    try:
        return _Run(case, scratch, events).run()
    finally:
        FLAKY.left = None
        shutil.rmtree(scratch, ignore_errors=True)


class _Run:
    def __init__(self, case: Case, scratch: Path, events: Counter[str]) -> None:
        self.case = case
        self.events = events
        self.scratch = scratch
        self.parallelism = case.settings["parallelism"]
        self.configuration = {
            "state.backend.type": case.settings["backend"],
            "state.backend.rocksdb.localdir": str(scratch / "rocksdb"),
            "state.backend.rocksdb.cached-values": "2",
            "state.backend.rocksdb.timer-service.cache-size": "2",
        }
        if case.settings["batch"]:
            self.configuration["execution.runtime-mode"] = "BATCH"
        if case.settings["parcel"]:
            self.configuration["execution.exchange.parcel-size"] = case.settings["parcel"]
        if case.settings["inline"]:
            self.configuration["state.inline-delta-size"] = case.settings["inline"]
        self.crashes: list[Fault] = []
        self.before: dict[int, list[Any]] = {leaf: [] for leaf in leaves(case.program)}
        self.job = self._started([f"in{number}" for number in range(len(case.input))])

    def _started(self, inputs: Any) -> JobHarness:
        settings = self.case.settings
        dealt = self.case.program[0]["dealt"]
        return JobHarness(
            builder(self.case),
            inputs=inputs,
            input_parallelism=None if dealt else 1,
            parallelism=self.parallelism,
            workers=settings["workers"],
            placement=moving(settings["workers"]) if settings["moving"] else None,
            configuration=self.configuration,
            merge_after=settings["merge_after"],
        )

    def run(self) -> dict[str, list[Any]]:
        taken = [0] * len(self.case.input)
        try:
            for sizes, event in self.case.epochs:
                records = {}
                for number, size in enumerate(sizes):
                    records[f"in{number}"] = list(
                        map(tuple, self.case.input[number][taken[number] : taken[number] + size])
                    )
                    taken[number] += size
                self._epoch(records, event)
            rest = {
                f"in{number}": list(map(tuple, raws[taken[number] :])) for number, raws in enumerate(self.case.input)
            }
            self.job.epoch(**rest)
            self._end()
            found = {f"node {leaf}": self.before[leaf] + self.job.output(f"out{leaf}") for leaf in self.before}
            return found if self.case.settings["batch"] else found | self._states()
        finally:
            self.job.close()

    def _end(self) -> None:
        """End the input. A job in BATCH mode does all it does now: crash then as often as it was to."""
        for fault in self.crashes:
            with contextlib.suppress(InjectedFaultError), injected(fault):
                self.job.end()
                return
            self.events["crash"] += 1
            self.job.restart(crashed=True)
        self.job.end()

    def _states(self) -> dict[str, list[Any]]:
        """The state of process functions, as the model has it. Windows that are all over have left nothing."""
        found = {}
        for number, node in enumerate(self.case.program):
            uid = f"{node.kind}-{number}"
            if node.kind in ("process", "co_process"):
                found[f"state of node {number}"] = self._state(uid)
            elif node.kind in _ENDING:
                tables = {name: table for (owner, name), table in self.job._committed()._tables.items() if owner == uid}
                left = {name: table.entries() for name, table in tables.items() if name != "fired" and table.entries()}
                if left:
                    raise AssertionError(f"node {number} has ended, and has left state behind: {left}")
        return found

    def _state(self, uid: str) -> list[Any]:
        tables = {name: self.job.state(uid, name) for name in "vlmrg"}
        keys = sorted({key for table in tables.values() for key in table}, key=name_of)
        found = []
        for key in keys:
            value, numbers, entries, most, mean = (tables[name].get(key) for name in "vlmrg")
            mean = None if mean is None else Mean().get_result(mean)
            entries = sorted((entries or {}).items())
            found.append((name_of(key), 0, f"0 {value} {numbers or []} {entries} {most} {mean}"))
        if timers := self.job.timers(uid):
            raise AssertionError(f"{uid} has ended, and its timers have not fired: {timers}")
        return found

    def _epoch(self, records: dict[str, list[Any]], event: tuple[Any, ...]) -> None:
        kind, *args = event or ("none",)
        if self.case.settings["batch"]:
            self.job.epoch(**records)  # they wait
            self.crashes += [Fault(args[0], skip=args[1])] if kind == "crash" else []
            return
        if kind in ("crash", "flaky"):
            self._struck(records, kind, args)
            return
        self.job.epoch(**records)
        self.events[kind] += kind != "none"
        if kind == "kill":
            self.job.kill_worker(args[0] % self.case.settings["workers"])
        elif kind == "rescale":
            self.job.rescale(args[0])
        elif kind == "restart":
            self.parallelism = args[0]
            self.job.restart(parallelism=self.parallelism)
        elif kind == "backend":
            self.configuration["state.backend.type"] = args[0]
            self.job.restart(configuration=self.configuration)
        elif kind == "savepoint":
            self._savepoint(args[0])

    def _struck(self, records: dict[str, list[Any]], kind: str, args: list[Any]) -> None:
        """An epoch in which something fails, if it comes that far; then the job is started again, and continues."""
        fault = Fault(args[0], skip=args[1]) if kind == "crash" else None
        FLAKY.left = args[0] if kind == "flaky" else None
        try:
            with injected(*([fault] if fault else [])):
                self.job.epoch(**records)
        except (InjectedFaultError, FlakyError):
            self.events[kind] += 1
            self.job.restart(crashed=True)
            self.job.run()
        except Exception as error:
            if kind != "flaky" or "FlakyError" not in str(error):
                raise
            self.events[kind] += 1
            self.job.restart(crashed=True)
            self.job.run()
        finally:
            FLAKY.left = None

    def _savepoint(self, parallelism: int) -> None:
        path = self.job.savepoint(self.scratch / "savepoints")
        for leaf in self.before:
            self.before[leaf] += self.job.output(f"out{leaf}")
        self.job.close()
        self.parallelism = parallelism
        self.configuration["execution.state-recovery.path"] = path
        self.job = self._started(self.job.inputs)
