"""Compares the output and state of a run with the expected results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chaos.functions import HELD_BACK
from chaos.job import JOB_ID, SINKS
from chaos.truth import Truth
from tidemill import state_processor

_SHOWN = 5


def differences(folder: Path, count: int) -> Iterator[str]:
    """All differences from the expected results after ``count`` records."""
    truth = Truth.of(count)
    output = {name: Counter[str]() for name in SINKS}
    for name in SINKS:
        for path in sorted((folder / "output" / name).rglob("*")):
            if path.is_file():
                if path.name.startswith((".", "_")):
                    yield f"{path.relative_to(folder)} belongs to an attempt that was never committed"
                else:
                    output[name].update(path.read_text().splitlines())
    for name in ("accounts", "windows", "sessions"):
        yield from compare(name, truth.output[name], output[name])

    state = state_processor.read(folder / "checkpoints" / JOB_ID)
    counts = Counter({f"{entry.key} {entry.value}": 1 for entry in state.entries("accounts", "count")})
    yield from compare("state count", Counter({f"{key} {value}": 1 for key, value in truth.counts.items()}), counts)
    digits = Counter(f"{entry.key} {entry.map_key} {entry.value}" for entry in state.entries("accounts", "digits"))
    expected = Counter(f"{key} {digit} {value}" for (key, digit), value in truth.digits.items())
    yield from compare("state digits", expected, digits)
    waiting = [entry for entry in state.entries("accounts", "waiting") if entry.value]
    if waiting:
        yield f"state waiting: {len(waiting)} keys still have entries after the final watermark"
    if state.timers("accounts").num_rows:
        yield f"{state.timers('accounts').num_rows} timers remain after the final watermark"

    held = Counter(map(str, state.operator_state("buffer", "held").column("value").to_pylist()))
    yield from compare("buffered", Counter(map(str, range(count))), output["buffered"] + held)
    if not 0 < held.total() <= 4 * HELD_BACK:
        yield f"operator state: {held.total()} records are held back"


def compare(what: str, expected: Counter[str], found: Counter[str]) -> Iterator[str]:
    """Report missing and surplus entries, if there are any."""
    lost, extra = expected - found, found - expected
    if lost or extra:
        yield (
            f"{what}: {lost.total()} of {expected.total()} lost, {extra.total()} too many; "
            f"lost {list(lost)[:_SHOWN]}, too many {list(extra)[:_SHOWN]}"
        )
