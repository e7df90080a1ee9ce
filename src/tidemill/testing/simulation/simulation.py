"""Deterministic simulation of whole jobs with faults: the same seed always results in the same run.

A seed determines a program, its input for each epoch, settings and faults. The job then runs on the production code
(coordinator, tasks, exchange, log, snapshots, retention), one step at a time, with an in-memory storage that injects
failures. Drivers and workers die, pause and return. Afterwards the invariants in ``checks.py`` must hold. The most
important one is that output and state equal those of the same job without faults.

>>> simulate(draw(1)).violations
[]
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import secrets
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from tidemill.checkpoint import compaction, restore
from tidemill.errors import TidemillError
from tidemill.faults import traced
from tidemill.runtime.driver import commits, snapshots
from tidemill.state.rocksdb import backend as rocksdb_backend
from tidemill.testing.simulation.checks import (
    RunOutcome,
    check_files,
    check_log,
    check_output,
    check_random,
    outcome_of,
)
from tidemill.testing.simulation.driver import Settings
from tidemill.testing.simulation.job import SimulatedJob
from tidemill.testing.simulation.programs import DICE, SHAPES, Input, draw_input
from tidemill.testing.simulation.trouble import PlannedFault, draw_troubles
from tidemill.testing.simulation.world import World


@dataclass(frozen=True)
class SimulationPlan:
    """The plan of a run: everything that is drawn from a seed."""

    seed: int
    shape: str
    inputs: dict[str, Input]
    settings: Settings
    troubles: tuple[PlannedFault, ...] = ()


@dataclass(frozen=True)
class Result:
    """The result of a plan: violated invariants, the event log, how often each place was passed, and the outcome."""

    plan: SimulationPlan
    violations: list[str]
    story: list[str]
    passed: dict[str, int]
    fired: list[PlannedFault]
    outcome: RunOutcome


def draw(seed: int) -> SimulationPlan:
    """Draw the plan of a seed. Runs the job once without faults, to determine where faults can be injected."""
    dice = random.Random(seed)
    # Only random programs reveal that the outputs of two attempts of a task were mixed, so they are drawn more often.
    shape = dice.choice([name for name, shape in sorted(SHAPES.items()) for _ in range(3 if shape.random else 1)])
    epochs, ends = dice.randint(2, 7), dice.random() < 0.6
    inputs = {
        name: draw_input(dice, number, epochs, ends=ends) for number, name in enumerate("ab"[: SHAPES[shape].sources])
    }
    settings = Settings(
        parallelism=dice.choice((1, 2, 2, 3)),
        max_parallelism=dice.choice((4, 16, 128)),
        workers=dice.choice((1, 2, 3)),
        placement=dice.choice(("sticky", "sticky", "moving", "random")),
        parcel_size=dice.choice((40, 300, 1 << 20)),
        inline_limit=dice.choice((0, 0, 1500, 64 << 10)),
        fan_in=dice.choice((2, 2, 3, 8)),
        smallest_tier=dice.choice((500, 4000, 64 << 10)),
        slice_bytes=dice.choice((1000, 16 << 20)),
        budget=dice.choice((0, 1 << 30, 1 << 30)),
        drops=dice.random() < 0.5,
        collects=dice.random() < 0.5,
        logs=seed % 3 == 0 and not SHAPES[shape].random,
        backend="rocksdb" if random.Random(f"backend {seed}").random() < 0.3 else "hashmap",
    )
    plan = SimulationPlan(seed, shape, inputs, settings)
    rescale = SHAPES[shape].robust and ends
    return dataclasses.replace(plan, troubles=draw_troubles(seed, dice, reference(plan).passed, rescale=rescale))


def reference(plan: SimulationPlan) -> Result:
    """Run the same job without faults, with one worker that keeps all chains, and state only in manifests."""
    global _last_reference
    settings = dataclasses.replace(
        plan.settings, workers=1, placement="sticky", inline_limit=1 << 30, fan_in=1000, budget=1 << 30
    )
    calm = dataclasses.replace(plan, troubles=(), settings=settings)
    if _last_reference is None or _last_reference.plan != calm:
        _last_reference = run_plan(calm)
    return _last_reference


#: The last reference run, which is needed to draw, simulate and shrink a plan.
_last_reference: Result | None = None


def simulate(plan: SimulationPlan) -> Result:
    """Run a plan; the result contains every invariant that is violated."""
    expected = reference(plan)
    result = run_plan(plan)
    shape = SHAPES[plan.shape]
    result.violations[:0] = [f"without faults: {violation}" for violation in expected.violations]
    if shape.random:
        numbers = [record[2] for given in plan.inputs.values() for epoch in given.epochs for record in epoch]
        result.violations.extend(check_random(result.outcome, numbers))
    else:
        rescaled = any("rescale" in trouble.what for trouble in result.fired)
        result.violations.extend(check_output(shape, expected.outcome, result.outcome, rescaled=rescaled))
    return result


def run_plan(plan: SimulationPlan) -> Result:
    """Run a plan and check the invariants that do not need a reference run."""
    with _deterministic(plan), contextlib.ExitStack() as stack:
        world = World(plan.troubles, f"world {plan.seed}")
        stack.callback(world.disks.close)
        stack.enter_context(mock.patch.object(rocksdb_backend, "Store", world.disks.open))
        stack.enter_context(traced(world.reach))
        job = SimulatedJob(world, plan.shape, plan.inputs, plan.settings, len(plan.troubles))
        try:
            job.finish()
        except Exception as error:
            world.violations.append(f"the run ended with {type(error).__name__}: {error}")
        world.violations += world.output.violations
        world.violations += check_log(world.disk)
        world.violations += check_files(world.disk)
        if not world.violations:
            world.violations += job.sweep()
        try:
            outcome = outcome_of(world, [f"sink-{name}" for name in job.sinks])
        except TidemillError as error:
            world.violations.append(f"the state cannot be read: {error}")
            outcome = RunOutcome({f"sink-{name}": {} for name in job.sinks}, [], {}, 0)
    return Result(plan, world.violations, world.story, world.troubles.passed, world.troubles.fired, outcome)


def shrink(result: Result) -> Result:
    """Remove faults from a plan as long as some invariant is violated; returns the result of the smallest plan."""
    troubles = result.plan.troubles
    for number in range(len(troubles)):
        again = simulate(dataclasses.replace(result.plan, troubles=(*troubles[:number], *troubles[number + 1 :])))
        if again.violations:
            return shrink(again)
    return result


def report(result: Result) -> str:
    """Return a text that describes the plan, the violations and the events of a run."""
    lines = [f"seed {result.plan.seed}, shape {result.plan.shape}, {result.plan.settings}"]
    for name, given in result.plan.inputs.items():
        sizes = [len(epoch) for epoch in given.epochs]
        lines.append(f"input {name}: epochs of {sizes} records, {given.parallelism} subtasks, ends: {given.ends}")
    lines += ["faults:", *(f"  {trouble}" for trouble in result.plan.troubles)]
    lines += ["broken:", *(f"  {violation}" for violation in result.violations[:10])]
    return "\n".join([*lines, "story:", *(f"  {line}" for line in result.story)])


def check_seed(seed: int) -> Result:
    """Run a seed; raises :class:`AssertionError` with the report of the smallest plan that still fails."""
    result = simulate(draw(seed))
    if result.violations:
        raise AssertionError(report(shrink(result)))
    return result


@contextlib.contextmanager
def _deterministic(plan: SimulationPlan) -> Iterator[None]:
    """Derive names and random user code from the seed, and lower size limits from gigabytes to kilobytes."""
    dice = random.Random(f"names {plan.seed}")
    DICE.seed(plan.seed)
    settings = plan.settings

    def new_uuid() -> uuid.UUID:
        return uuid.UUID(int=dice.getrandbits(128), version=4)

    def new_token(count: int = 16) -> str:
        return f"{dice.getrandbits(8 * count):0{2 * count}x}"

    with (
        mock.patch.object(uuid, "uuid4", new_uuid),
        mock.patch.object(secrets, "token_hex", new_token),
        mock.patch.object(compaction, "SMALLEST_TIER", settings.smallest_tier),
        mock.patch.object(snapshots, "_SLICE_BYTES", settings.slice_bytes),
        mock.patch.object(snapshots, "_HERE_BYTES", settings.slice_bytes),
        mock.patch.object(restore, "_READ_WHOLE", settings.slice_bytes),
        mock.patch.object(commits, "_ON_DRIVER", settings.slice_bytes),
    ):
        level = logging.getLogger("tidemill").level
        logging.getLogger("tidemill").setLevel(logging.ERROR)
        try:
            yield
        finally:
            logging.getLogger("tidemill").setLevel(level)
