"""Records of jobs that never ran, with something in every field."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

from tests.unit.runtime.plans import bundle
from tidemill.checkpoint.model import Epoch
from tidemill.common import JobStatus
from tidemill.common.reports.checkpoint_statistics import (
    CheckpointHistory,
    CheckpointStatistics,
    CheckpointStatus,
    SubtaskCheckpoint,
)
from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.common.reports.hot_keys import HotKey, HotKeys
from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope, MetricSnapshot, MetricValue
from tidemill.errors import FailureSite
from tidemill.runtime.history.job_record import JobRecord, LogTail, _plan_as_json, _plan_of
from tidemill.runtime.history.recording import _masked_plan
from tidemill.runtime.observe.epoch_stats import EpochStats


def now() -> int:
    return time.time_ns() // 1_000_000


def record(
    job_id: str = "shop", status: JobStatus = JobStatus.FINISHED, written: int | None = None, started: int = 1_000
) -> JobRecord:
    at = now() if written is None else written
    entered = {JobStatus.CREATED: started, JobStatus.RUNNING: started + 5, status: at}
    checkpoint = CheckpointStatistics(7, CheckpointStatus.COMPLETED, 2_000, 30, 100, 4_000, 2, retained=True)
    checkpoint = replace(checkpoint, parts=(SubtaskCheckpoint("count", 1, 100, 0.5, 20.5, (("count", "n", 3),)),))
    failed = CheckpointStatistics(8, CheckpointStatus.FAILED, 3_000, 30, failure="disk full")
    saved = CheckpointStatistics(7, CheckpointStatus.COMPLETED, 2_500, 10, is_savepoint=True, path="/savepoints/a")
    seen = HistogramValue(4, 10.0, 1.0, 4.0, ((1.0, 1), (2.0, 2), (math.inf, 4)))
    values = (
        MetricValue(MetricScope.JOB, "currentEpoch", MetricKind.GAUGE, 7.0),
        MetricValue(MetricScope.JOB, "epochDuration", MetricKind.HISTOGRAM, seen),
        MetricValue(
            MetricScope.OPERATOR,
            "sold",
            MetricKind.METER,
            2.5,
            "count",
            "Count",
            1,
            (("shop", "a b"),),
            events=9.0,
        ),
    )
    site = FailureSite("parse", "parse", 1, 7, "ValueError", record="'x'")
    plan = bundle(lambda env: env.from_collection([1, 2]).map(str).key_by(lambda text: text).map(len)).plan
    return JobRecord(
        job_id=job_id,
        name="the shop",
        written=at,
        pause=30_000,
        status=status,
        entered=entered,
        restarts=2,
        plan=_plan_of(json.loads(json.dumps(_plan_as_json(_masked_plan(plan))))),
        parallelism={chain.id: 3 for chain in plan.chains},
        configuration={"execution.checkpointing.interval": "10 s"},
        epochs=tuple(
            EpochStats(Epoch(number), 5, 0.5, 0.3, 0.1, 0.1, 50, 9, 1, {}, 2_000 + number, {"compute": 1.5})
            for number in (6, 7)
        ),
        checkpoints=CheckpointHistory(7, 1, None, (checkpoint, failed, saved), saved),
        exceptions=(ExceptionEntry(900, 950, 2, "ValueError: no", "Traceback ...", site, "started again"),),
        metrics=MetricSnapshot(job_id, "the shop", at, values),
        accumulators={"count.numRecordsIn": 10},
        hot_keys={"count": HotKeys((HotKey(["a", 1], "('a', 1)", 0.5, 5),), 10)},
        log=LogTail("/logs/shop.log", ("first", "last"), skipped=True),
    )
