"""The epoch's context as text, and where subtasks stand."""

from __future__ import annotations

from tests.unit.runtime.plans import bundle
from tidemill.checkpoint.model import Epoch, Slot
from tidemill.runtime.epoch import EpochContext, Layout

CONTEXT = EpochContext(
    job_id="job",
    lineage="000-ab",
    epoch=Epoch(7),
    rerun=1,
    head=Slot(12),
    processing_time=99,
    parallelism=(1, 2),
    attempts={1: ("x", "y")},
    watermarks={0: {"a": (5,)}, 1: {"b": (4, 6), "c": (1, 2)}},
    times={1: {"b": ([["p", 4, True, 9, "AA=="]], None)}},
    watermark_base=4,
    last=True,
)


def test_a_context_survives_as_text() -> None:
    assert EpochContext.from_json(CONTEXT.to_json()) == CONTEXT


def test_a_context_with_defaults_survives_as_text() -> None:
    plain = EpochContext("job", "l", Epoch(1), 0, None, 0, (1,))
    assert EpochContext.from_json(plain.to_json()) == plain


def test_the_layout_gives_each_subtask_a_partition_of_its_level() -> None:
    plan = bundle(
        lambda env: (
            env.from_collection([1])
            .union(env.from_collection([2]))
            .key_by(lambda n: n)
            .sum()
            .union(env.from_sequence(1, 3).rebalance().map(abs).set_parallelism(3))
        )
    ).plan
    parallelism = tuple(chain.parallelism or 1 for chain in plan.chains)
    layout = Layout(plan, parallelism)
    assert layout.depth == len(plan.levels)
    seen = set()
    for level, chains in enumerate(plan.levels):
        assert layout.width(level) == sum(parallelism[chain] for chain in chains)
        for partition in range(layout.width(level)):
            chain, subtask = layout.subtask(level, partition)
            assert chain in chains
            assert layout.partition(chain, subtask) == partition
            seen.add((chain, subtask))
    assert len(seen) == sum(parallelism)
