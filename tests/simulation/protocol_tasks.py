"""The tasks of a schedule: they compute nothing, and only say who ran, and whose output they read.

The job has two chains, a source and a keyed one. What a keyed subtask does in an epoch is to load the committed lines,
and to write one line that names its own attempt and those whose output it read.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

from tests.simulation.protocol_storage import SharedStorage
from tests.simulation.protocol_truth import Line, decode_lines
from tests.simulation.protocol_world import World
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.model import Ack, Attempt, Epoch, Piece, RunRef, SectionInfo, SubtaskId
from tidemill.checkpoint.names import delta_name
from tidemill.checkpoint.restore import committed_pieces, pieces_for
from tidemill.checkpoint.versions import runs_after
from tidemill.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidemill.errors import JobExecutionError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.launch import prepare
from tidemill.runtime.epoch import EpochContext
from tidemill.state.keyed.backend import StateVersion
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP, KeyGroup, Subtask
from tidemill.testing.recording_sink import RecordingSink

JOB = "protocol"
SOURCE, KEYED = "numbers", "lines"
GROUPS = 128


@functools.cache
def two_chains(parallelism: int) -> JobPlan:
    """A plan with a source and a keyed operator that has a sink."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism).set_max_parallelism(GROUPS)
    numbers = env.from_collection([1, 2]).uid(SOURCE)
    numbers.key_by(lambda value: value).map(lambda value: value).uid(KEYED).sink_to(RecordingSink(None)).uid("sink")
    return prepare(env._program(JOB), parallelism).plan


class Tasks:
    """Runs the tasks of an epoch, as badly as Spark may: twins, lost output, lost and repeated reports, stragglers."""

    def __init__(self, world: World, storage: SharedStorage) -> None:
        # configuration
        self._world = world
        self._storage = storage
        self._log = ManifestLog(storage, JOB)
        # transient
        self._acks: list[Ack] = []
        self._memory: tuple[StateVersion, list[Line]] | None = None

    def run_commits(self, tasks: Sequence[tuple[str, int, bytes]]) -> list[bytes]:
        """The job's sink commits on the driver."""
        raise NotImplementedError

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[Any]:
        """Run the source's subtasks, then the keyed ones; returns their acks (nobody has to unpack them)."""
        world, dice = self._world, self._world.dice
        sources, keyed = context.parallelism[0], context.parallelism[1]
        self._load(context)
        attempts = [
            [self._attempt() for _ in range(2 if self._trouble("a source has a twin") else 1)] for _ in range(sources)
        ]
        acks = [self._ack(context, SOURCE, number, tried[-1]) for number, tried in enumerate(attempts)]
        for subtask in range(keyed):
            world.step("task")
            if self._trouble("a task is tried again"):
                self._keyed(context, inputs, subtask, attempts)
            acks.append(self._keyed(context, inputs, subtask, attempts))
            if self._trouble("a straggler writes later"):
                name = delta_name(context.lineage, context.epoch, KEYED, subtask, self._attempt())
                world.send(f"write {name}", functools.partial(world.disk.write, name, b"straggler"))
        if self._trouble("a report is lost"):
            acks.pop(int(dice.random() * len(acks)))
        if self._trouble("a report comes twice"):
            acks.append(acks[-1])
        if self._acks and self._trouble("an old report comes again"):
            acks[int(dice.random() * len(acks))] = dice.choice(self._acks)
        if self._trouble("a task fails"):
            raise JobExecutionError("injected: a task failed four times")
        self._acks = acks
        return acks

    def interrupt(self) -> None:
        """Nothing here takes long."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def _trouble(self, what: str) -> bool:
        if self._world.calm or self._world.dice.random() >= self._world.habits.trouble:
            return False
        self._world.coverage.happened[what] += 1
        self._world.tell(what)
        return True

    def _attempt(self) -> Attempt:
        return Attempt(f"t{self._world.token(2)}")

    def _ack(self, context: EpochContext, chain: str, subtask: int, attempt: Attempt, **more: Any) -> Ack:
        return Ack(SubtaskId(chain, Subtask(subtask)), attempt, Epoch(context.epoch), context.rerun, **more)

    def _keyed(self, context: EpochContext, inputs: EpochInput, subtask: int, senders: list[list[Attempt]]) -> Ack:
        dice, attempt = self._world.dice, self._attempt()
        read = [tried[0] if len(tried) == 1 else dice.choice(tried) for tried in senders]
        batch = int((inputs.spark or {})["batch_id"])
        line = Line(context.epoch, batch, subtask, attempt, tuple(read))
        width = context.parallelism[1]
        data = line.encode()
        file = None
        if dice.random() < self._world.habits.files:
            file = delta_name(context.lineage, context.epoch, KEYED, subtask, attempt)
            self._storage.write(file, data)
        piece = piece_of(subtask, KEYED, data, file, subtask * GROUPS // width, (subtask + 1) * GROUPS // width - 1)
        staged = f"{KEYED}/{context.lineage}/{context.epoch}-{subtask}-{attempt}"
        self._world.output.stage(staged, [(context.epoch, subtask, attempt)])
        return self._ack(
            context,
            KEYED,
            subtask,
            attempt,
            consumed={SubtaskId(SOURCE, Subtask(number)): sender for number, sender in enumerate(read)},
            pieces=(piece,),
            committables={KEYED: (staged.encode(),)},
        )

    def _load(self, context: EpochContext) -> None:
        """A worker gets the committed state: all of it, or what came since the version that it has at hand."""
        if context.head is None or self._world.dice.random() < 0.5:
            return
        head = self._log.read(context.head)
        known: list[Line] = []
        runs: tuple[RunRef, ...] | None = None
        if self._memory is not None:
            runs = runs_after(head, self._memory[0], self._log.read)
            known = [] if runs is None else [*self._memory[1]]
            self._world.coverage.happened["a worker starts again" if runs is None else "a worker catches up"] += 1
        pieces = committed_pieces(self._storage, self._log, head)
        wanted = [entry for entry in pieces if runs is None or entry[0] in runs]
        for _, reader in pieces_for(self._storage, wanted, {KEYED}, FIRST_GROUP, LAST_GROUP):
            known += decode_lines(reader.read())
        if known != [line for line in self._world.disk.all_lines() if line.epoch <= head.epoch]:
            self._world.disk.violations.append(f"a worker loads {known} at epoch {head.epoch}")
        self._memory = (StateVersion(head.lineage, head.slot, head.epoch), known)


def piece_of(number: int, chain: str, data: bytes, file: str | None, first: int, last: int) -> Piece:
    section = SectionInfo(KEYED, "lines", KeyGroup(first), KeyGroup(last), 1)
    digest = hashlib.sha256(data).hexdigest()
    return Piece(number, chain, len(data), digest, (section,), file, data if file is None else None)
