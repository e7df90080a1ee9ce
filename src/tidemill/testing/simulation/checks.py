"""The invariants of every simulated run, regardless of its faults."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.manifest import read_piece
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import MANIFESTS, SNAPSHOTS, STATE, lineage_slot, manifest_name, parse_snapshot
from tidemill.checkpoint.restore import committed_pieces, pieces_for, run_name
from tidemill.checkpoint.retention import kept_slots, names_referenced, waypoints
from tidemill.checkpoint.snapshot_index import read_snapshot_index
from tidemill.errors import TidemillError
from tidemill.state.files.sections import read_rows
from tidemill.state.files.state_file import decode_sections
from tidemill.state.keyed.backend import EVENT_TIMERS, PROCESSING_TIMERS
from tidemill.state.keyed.kinds import tables_of
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP
from tidemill.state.operator.operator_state import BROADCAST, LAYOUT, OPERATOR_STATE, is_operator_state
from tidemill.testing.simulation.programs import SimulatedProgram
from tidemill.testing.simulation.world import Disk, World

State = dict[tuple[str, str], dict[str, str]]


@dataclass(frozen=True)
class RunOutcome:
    """The results of a run: the output of each sink by epoch, the collected records, and the final state."""

    output: dict[str, dict[int, list[Any]]]
    collected: list[Any]
    state: State
    epochs: int


def outcome_of(world: World, sinks: Iterable[str]) -> RunOutcome:
    """Return the results of a run."""
    world.collected.results.finish()
    head = world.disk.head
    return RunOutcome(
        {sink: world.output.by_epoch(sink) for sink in sinks},
        list(world.collected.results),
        {} if head is None else state_of(world.disk, head),
        0 if head is None else head.epoch,
    )


def state_of(disk: Disk, head: Manifest) -> State:
    """Return all entries of all states and timers at a manifest, as text."""
    log = ManifestLog(disk, head.job_id)
    runs = committed_pieces(disk, log, head)
    tables: dict[tuple[str, str], Any] = {}
    modes: dict[tuple[str, str], str] = {}
    operators = {section.operator for _, pieces in runs for piece in pieces for section in piece.sections}
    for piece, reader in pieces_for(disk, runs, operators, FIRST_GROUP, LAST_GROUP):
        for section in decode_sections(reader.read(), piece.file or reader.named_by):
            place = (section.operator, section.state)
            if is_operator_state(section):
                modes[place] = section.schema[OPERATOR_STATE]
            if place not in tables:
                tables[place] = tables_of(section.kind).memory()
            tables[place].load(read_rows(section))
    found: State = {}
    for (operator, state), table in tables.items():
        if state in (EVENT_TIMERS, PROCESSING_TIMERS):
            entries = {repr(timer): "" for timer in table.pending()}
        elif (operator, state) in modes:
            entries = _over_subtasks(modes[operator, state], table.layer(None).base)
        else:
            entries = {repr(key): repr(value) for key, value in table.layer(None).base.items()}
        if entries:
            found[operator, state] = entries
    return found


def _over_subtasks(mode: str, stored: dict[int, Any]) -> dict[str, str]:
    """Return operator state independent of the parallelism: the elements of all lists, the contents of map copies."""
    if mode == BROADCAST:
        return {repr(copy): "a copy" for copy in stored.values()}
    if mode == LAYOUT:
        counts = {len(stored), *stored.values()}
        return {} if len(counts) == 1 else {f"written by {stored}": "but each must have the number of subtasks"}
    elements = sorted(repr(element) for part in stored.values() for element in part)
    return {"elements": repr(elements)} if elements else {}


def check_log(disk: Disk) -> Iterator[str]:
    """Check that the log is one chain: each takeover continues from its predecessor, and each epoch occurs once."""
    yield from disk.violations
    before: Manifest | None = None
    for slot, manifest in sorted(disk.manifests.items()):
        if manifest.slot != slot:
            yield f"slot {slot} contains the manifest of slot {manifest.slot}"
        if before is None:
            if (slot, manifest.kind, manifest.epoch) != (1, "takeover", 0):
                yield f"the log begins with slot {slot}, {manifest.kind} {manifest.epoch}"
        elif slot != before.slot + 1:
            yield f"slot {slot} follows slot {before.slot}"
        elif manifest.kind == "takeover":
            if (manifest.epoch, manifest.sources, manifest.runs) != (before.epoch, before.sources, before.runs):
                yield f"the takeover in slot {slot} does not continue from the manifest before it"
        elif manifest.epoch != before.epoch + 1 or manifest.lineage != before.lineage:
            yield f"epoch {manifest.epoch} of {manifest.lineage} in slot {slot} follows {before.epoch} of another"
        else:
            yield from _clocks(before, manifest)
        before = manifest


def _clocks(before: Manifest, after: Manifest) -> Iterator[str]:
    """Check that time never goes back. After a rescale, clocks cannot be matched, and the slowest is compared."""
    for operator, marks in after.watermarks.items():
        earlier = before.watermarks.get(operator, marks)
        if len(earlier) != len(marks):
            earlier = (min(earlier),) * len(marks)
        if any(new < old for new, old in zip(marks, earlier, strict=True)):
            yield f"watermarks of {operator} went back in epoch {after.epoch}: {earlier} to {marks}"
    if after.clock < before.clock:
        yield f"processing time went back in epoch {after.epoch}"


def check_files(disk: Disk) -> Iterator[str]:
    """Check that all files that the head refers to exist and are complete."""
    head = disk.head
    if head is None:
        return
    try:
        for run, pieces in committed_pieces(disk, ManifestLog(disk, head.job_id), head):
            for piece in pieces:
                data = read_piece(disk, piece, run_name(run))
                if len(data) != piece.length or hashlib.sha256(data).hexdigest() != piece.sha256:
                    yield f"a piece of {run_name(run)} differs from what was written"
    except TidemillError as error:
        yield f"the head cannot be read: {error}"


def check_swept(disk: Disk, in_progress: Collection[str]) -> Iterator[str]:
    """Check that a sweep leaves only files of retained manifests, unfinished snapshots, and waypoints of the log."""
    head = disk.head
    if head is None:
        return
    needed = {manifest_name(slot) for slot in (*waypoints(head.slot), *disk.late_claims)}
    needed |= {manifest_name(slot) for slot, known in disk.manifests.items() if known.kind == "takeover"}
    needed.add(manifest_name(lineage_slot(head.lineage) or head.slot))
    for slot in kept_slots(head):
        needed |= names_referenced(
            disk.manifests[slot], disk.manifests.__getitem__, lambda s: read_snapshot_index(disk, s)
        )
    for prefix in (MANIFESTS, SNAPSHOTS, STATE):
        for name in disk.list(prefix):
            if name not in needed and parse_snapshot(name) not in in_progress:
                yield f"{name} is left over"


def check_output(shape: SimulatedProgram, expected: RunOutcome, found: RunOutcome, *, rescaled: bool) -> Iterator[str]:
    """Check that output and state equal those of the run without faults: by epoch, or in total after a rescale."""
    if expected.epochs != found.epochs:
        yield f"{found.epochs} epochs were committed instead of {expected.epochs}"
    for sink, by_epoch in expected.output.items():
        mine = found.output[sink]
        if rescaled:
            yield from _same(sink, _all(by_epoch), _all(mine), _order(shape, rescaled=True))
            continue
        for epoch in sorted({*by_epoch, *mine}):
            where = f"{sink} in epoch {epoch}"
            yield from _same(where, by_epoch.get(epoch, []), mine.get(epoch, []), _order(shape, rescaled=False))
    order = _order(shape, rescaled=rescaled)
    yield from _same("collected records", expected.collected, found.collected, order)
    for place in sorted({*expected.state, *found.state}):
        theirs, ours = expected.state.get(place, {}), found.state.get(place, {})
        for key in sorted({*theirs, *ours}):
            if theirs.get(key) != ours.get(key):
                yield f"state {place}: {key} is {ours.get(key)}, but {theirs.get(key)} without faults"


def check_random(found: RunOutcome, numbers: Iterable[int]) -> Iterator[str]:
    """Check that the output of a random program matches its state, and that every record was processed once."""
    wanted = Counter(numbers)
    for sink, operator in (("sink-main", "sums"), ("sink-again", "more-sums")):
        if sink not in found.output:
            continue
        totals: dict[str, int] = {}
        seen: Counter[int] = Counter()
        for amount, key, number, total in _all(found.output[sink]):
            totals[key] = totals.get(key, 0) + amount
            seen[number] += 1
            if total != totals[key]:
                yield f"{sink}: record {number} of {key} has the total {total}, but the sum up to it is {totals[key]}"
        if seen != wanted:
            yield f"{sink}: records lost {wanted - seen}, records repeated {seen - wanted}"
        state = found.state.get((operator, "total"), {})
        if state != {repr(key): repr(total) for key, total in totals.items()}:
            yield f"{operator}: the state is {state}, but the output has {totals}"


def _all(by_epoch: dict[int, list[Any]]) -> list[Any]:
    return [record for epoch in sorted(by_epoch) for record in by_epoch[epoch]]


def _order(shape: SimulatedProgram, *, rescaled: bool) -> int:
    """Return how order is compared: 0 ignores it, 1 compares it by key (field 1), 2 by (kind, key)."""
    return 0 if not shape.ordered else 2 if rescaled else 1


def _same(where: str, expected: list[Any], found: list[Any], order: int) -> Iterator[str]:
    missing, extra = Counter(map(repr, expected)), Counter(map(repr, found))
    if missing != extra:
        yield f"{where}: lost {_some(missing - extra)}, too many {_some(extra - missing)}"
    elif order and _by_key(expected, order) != _by_key(found, order):
        yield f"{where}: records of a key are in another order"


def _by_key(records: list[Any], order: int) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for record in records:
        found.setdefault(record[1] if order == 1 else record[:2], []).append(record)
    return found


def _some(records: Counter[str]) -> str:
    return ", ".join(f"{count} x {record}" for record, count in list(records.items())[:3]) or "nothing"
