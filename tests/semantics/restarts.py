"""Random lives of a job: streams that are out of order, cut into epochs anywhere, with crashes, restarts and rescales
between them. The tests compare what came out with a computation over all records at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from tests.semantics.cases_state import SecondField
from tests.thorough import examples
from tidemill.common import WatermarkStrategy
from tidemill.datastream import DataStream
from tidemill.faults import Fault
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving

#: (key, event time, number): the number tells apart what is equal otherwise.
Record = tuple[str, int, int]
#: Watermarks are this much behind, and records come at most this late.
DELAY = 7
KEYS = ("a", "b", "c", "d", "e")

lives = settings(
    max_examples=examples(10), deadline=None, database=None, phases=[Phase.explicit, Phase.generate, Phase.shrink]
)


@dataclass(frozen=True)
class Happening:
    """What is done after an epoch, or to it."""

    what: str
    parallelism: int


happenings = st.builds(
    Happening,
    st.sampled_from(["nothing", "nothing", "restart", "rescale", "crash", "lost worker"]),
    st.integers(1, 4),
)


@st.composite
def streams(draw: st.DrawFn, least: int = 25, most: int = 50, step: int = 6, disorder: int = DELAY) -> list[Record]:
    """Records of which none is late, if their disorder is within the delay."""
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from(KEYS), st.integers(0, step), st.integers(0, disorder)),
            min_size=least,
            max_size=most,
        )
    )
    now, records = 0, []
    for number, (key, ahead, behind) in enumerate(drawn):
        now += ahead
        records.append((key, now - behind, number))
    return records


@dataclass(frozen=True)
class Life:
    """Where epochs end, in percent of a stream, and what happens there."""

    cuts: Sequence[int]
    happenings: Sequence[Happening]
    parallelism: int
    cold: bool

    def parts(self, records: Sequence[Any]) -> list[list[Any]]:
        """The records of each epoch."""
        places = [0, *(cut * len(records) // 100 for cut in sorted(self.cuts)), len(records)]
        return [list(records[start:end]) for start, end in pairwise(places)]


def portions(sides: Mapping[str, Sequence[Any]], chance: random.Random) -> Iterator[dict[str, Sequence[Any]]]:
    """What each epoch gets of several streams that are cut anywhere."""
    left = dict(sides)
    while any(left.values()):
        sent = {}
        for side, records in left.items():
            count = chance.randint(0, 25)
            sent[side], left[side] = records[:count], records[count:]
        yield sent


@st.composite
def lives_of_a_job(draw: st.DrawFn) -> Life:
    cuts = draw(st.lists(st.integers(1, 99), min_size=2, max_size=6))
    return Life(
        cuts,
        draw(st.lists(happenings, min_size=len(cuts) + 1, max_size=len(cuts) + 1)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
    )


def stamped(stream: DataStream) -> DataStream:
    """Event time is the second field."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DELAY)
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def harness(build: Callable[..., Any], inputs: Sequence[str], life: Life) -> JobHarness:
    """A job that is read by as many subtasks as it has elsewhere."""
    return JobHarness(
        build,
        inputs=inputs,
        input_parallelism=None,
        parallelism=life.parallelism,
        workers=2,
        placement=moving(2) if life.cold else None,
        merge_after=3,
    )


def live(job: JobHarness, life: Life, **records: Sequence[Any]) -> None:
    """Run a job through a life, without ending it."""
    parts = {name: life.parts(stream) for name, stream in records.items()}
    for number, happening in enumerate(life.happenings):
        epoch = {name: of[number] for name, of in parts.items()}
        if happening.what == "crash":
            job.crash(Fault("manifest.before"), **epoch)
            job.run()
        else:
            job.epoch(**epoch)
        if happening.what == "restart":
            job.restart(parallelism=happening.parallelism)
        elif happening.what == "rescale":
            job.rescale(happening.parallelism)
        elif happening.what == "lost worker":
            job.kill_worker(happening.parallelism % 2)


def entries_left(job: JobHarness) -> dict[tuple[str, str], int]:
    """Everything that is still in keyed state or a timer, by operator and state."""
    tables = job._committed()._tables
    return {name: table.entries() for name, table in tables.items() if table.entries()}
