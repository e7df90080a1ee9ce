"""Schedules of the protocol, by seed: run one, and have every invariant that it broke."""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.simulation.protocol_driver import Driver
from tests.simulation.protocol_tasks import KEYED, SOURCE
from tests.simulation.protocol_truth import Disk, decode_once
from tests.simulation.protocol_world import Coverage, World
from tidemill.checkpoint import log, retention
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import lineage_slot, manifest_name, parse_snapshot
from tidemill.checkpoint.protocol import Publish, build_manifest
from tidemill.checkpoint.retention import waypoints
from tidemill.faults import traced
from tidemill.runtime.driver import coordinator, snapshots

#: A schedule has some dozens of slots: looking for the head need not go through more bits than these.
_SLOT_BITS = 6


@dataclass(frozen=True)
class Outcome:
    """What came of a schedule."""

    world: World
    violations: list[str]

    @property
    def coverage(self) -> Coverage:
        return self.world.coverage

    def report(self) -> str:
        """What was broken, and how it came to it."""
        return "\n".join([*self.world.told(), "broken:", *self.violations[:10]])


class _Unexpected(logging.Handler):
    """Notices errors that background work logs with a traceback: they are bugs, not faults."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(record.getMessage())


class Schedules:
    """Runs schedules; while it is open, names are drawn from the schedule that runs, and sweeps come often."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._unexpected = _Unexpected()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Schedules]:
        """Usable inside the block."""

        def with_checkpoints(head: Manifest, publish: Publish, **options: Any) -> Manifest:
            world = self._world
            if world is not None:
                options |= {"checkpoint": world.dice.random() < world.habits.checkpoints, "retain": 2}
            return build_manifest(head, publish, **options)

        logger = logging.getLogger("tidemill")
        level, spread = logger.level, logger.propagate
        with (
            mock.patch.object(secrets, "token_hex", lambda count=16: self._world.token(count) if self._world else ""),
            mock.patch.object(coordinator, "build_manifest", with_checkpoints),
            mock.patch.object(coordinator, "read_report", lambda ack: ack),
            mock.patch.object(snapshots, "_HERE_BYTES", -1),
            mock.patch.object(snapshots, "_SWEEP_EPOCHS", 1),
            mock.patch.object(retention, "SLOT_BITS", _SLOT_BITS),
            mock.patch.object(log, "decode_manifest", decode_once),
            traced(self._reach),
        ):
            logger.addHandler(self._unexpected)
            logger.propagate = False
            try:
                yield self
            finally:
                logger.setLevel(level)
                logger.propagate = spread
                logger.removeHandler(self._unexpected)

    def run(self, seed: int) -> Outcome:
        """Run one schedule to its end: with faults, then with a driver that is left alone to finish and to sweep."""
        world = self._world = World(seed, Disk(SOURCE, KEYED))
        world.start = lambda process: Driver(world, process).run()
        world.run()
        world.run_calmly(lambda process: Driver(world, process).sweep())
        self._world = None
        violations = [
            *world.disk.violations,
            *world.output.violations,
            *self._unexpected.found,
            *self._at_the_end(world),
        ]
        self._unexpected.found.clear()
        return Outcome(world, violations)

    def _reach(self, point: str) -> None:
        if self._world is not None:
            self._world.step("point", point)

    @staticmethod
    def _at_the_end(world: World) -> Iterator[str]:
        head, disk = world.disk.head, world.disk
        if head is None or head.epoch != world.habits.batches:
            yield f"{world.habits.batches} batches were there, but the job ended with epoch {head and head.epoch}"
            return
        committed = {record for records in world.output.by_epoch(KEYED).values() for record in records}
        expected = {(line.epoch, line.subtask, line.attempt) for line in disk.all_lines()}
        if committed != expected:
            yield f"the output lacks {expected - committed}, and has {committed - expected} that nobody committed"
        if left := world.output.left():
            yield f"output was left over: {left}"
        fences = {manifest_name(known.slot) for known in disk.history if known.kind == "takeover"}
        path = {manifest_name(slot) for slot in (*waypoints(head.slot), lineage_slot(head.lineage) or head.slot)}
        needed = disk.needed() | disk.late_claims | fences | path
        for name in disk.files:
            if name not in needed and parse_snapshot(name) not in world.in_progress:
                yield f"{name} is left over"


def _main() -> None:
    with Schedules().opened() as schedules:
        for seed in sys.argv[1:]:
            print(schedules.run(int(seed)).report())


if __name__ == "__main__":
    _main()
