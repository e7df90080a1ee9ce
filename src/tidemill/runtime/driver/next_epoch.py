"""Builds the context of the next epoch from the head manifest."""

from __future__ import annotations

import math
from typing import Any

from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.connectors.sources import ClockOf
from tidemill.datastream.program.specs import TimestampsSpec
from tidemill.graph.plan import ChainPlan, JobPlan, OperatorPlan
from tidemill.runtime.batch.records import MIN_TIME
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.time.time_states import deal_marks, deal_times


def next_context(
    plan: JobPlan,
    head: Manifest,
    inputs: EpochInput,
    parallelism: tuple[int, ...],
    *,
    job_id: str,
    lineage: str,
    history: str,
    rerun: int,
    now: int,
    checkpoint: bool = True,
    seconds_to_next: float | None = None,
) -> EpochContext:
    """The context of the epoch after the head manifest, for the given parallelism of each chain.

    ``rerun`` is how often the epoch was run before. Event time continues from the manifest, even if partitions are
    now read by other subtasks. Processing time does not go back. ``checkpoint`` is whether the epoch is a checkpoint,
    and ``seconds_to_next`` when the next one is due, None if each epoch is one.
    """
    attempts: dict[int, tuple[str, ...]] = {}
    watermarks: dict[int, dict[str, tuple[int, ...]]] = {}
    times: dict[int, dict[str, tuple[Any, ...]]] = {}
    lowest: int | None = None
    for chain in plan.chains:
        uid = chain.head.uid
        if chain.stateful and uid in head.attempts:
            attempts[chain.id] = tuple(head.attempts[uid])
        for operator in chain.operators:
            marks = head.watermarks.get(operator.uid)
            if marks and max(marks) > MIN_TIME:
                lowest = min(marks) if lowest is None else min(lowest, *marks)
                watermarks.setdefault(chain.id, {})[operator.uid] = deal_marks(
                    marks, head.times.get(operator.uid, ()), parallelism[chain.id], chain.clock_of
                )
            kept = deal_times(
                head.times.get(operator.uid, ()),
                parallelism[chain.id],
                inputs.read.get(chain.id, ()) if _may_keep_times(chain, operator) else (),
                chain.clock_of,
                restarted=head.kind == "takeover",
            )
            if any(state is not None for state in kept):
                times.setdefault(chain.id, {})[operator.uid] = kept
    processing_time = max(now, head.clock)
    return EpochContext(
        job_id=job_id,
        lineage=lineage,
        history=history,
        epoch=Epoch(head.epoch + 1),
        rerun=rerun,
        head=head.slot if head.runs else None,
        processing_time=processing_time,
        parallelism=parallelism,
        attempts=attempts,
        watermarks=watermarks,
        times=times,
        watermark_base=MIN_TIME if lowest is None else lowest,
        last=inputs.last,
        ended=tuple(inputs.ended),
        after_checkpoint=head.slot in head.checkpoints,
        checkpoint=checkpoint,
        next_checkpoint=None if seconds_to_next is None else processing_time + math.ceil(seconds_to_next * 1000),
    )


def _may_keep_times(chain: ChainPlan, operator: OperatorPlan) -> bool:
    """Whether an operator may generate watermarks per partition of its chain's source."""
    if operator is chain.head:
        return True
    return chain.clock_of is ClockOf.PARTITION and operator.spec_kind == TimestampsSpec.__name__
