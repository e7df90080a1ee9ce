"""The demo on a slow machine: it explains the delay, gives the same verdict, and fails only if nothing moves."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from examples import fraud_detection
from examples.support.demo import Watch
from examples.support.findings import true_findings, written_findings
from examples.support.pace import PAYMENTS_PER_SECOND, Pace
from examples.support.payments import PaymentSource
from examples.support.view import PlainView
from examples.support.workers import Worker, kill_when_busy
from tidemill.common import Configuration
from tidemill.connectors.sources import RecordBatch, Split
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.runtime.driver.job import RunningJob

NEVER, DELAYED = threading.Event(), threading.Event()


class SlowSource(PaymentSource):
    """Takes some seconds for one read after the first payments, once."""

    delay = 7.0

    def read(self, split: Split) -> Iterator[RecordBatch]:
        if split.payload[1] > 0 and not DELAYED.is_set():
            DELAYED.set()
            NEVER.wait(self.delay)
        yield from super().read(split)


class StuckSource(SlowSource):
    delay = 12.0


def watch(source: PaymentSource, folder: Path, start_seconds: float, stall_seconds: float) -> tuple[Watch, io.StringIO]:
    DELAYED.clear()
    configuration = Configuration().set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    fraud_detection.build(env, source, folder)
    launched, printed = time.monotonic() - start_seconds, io.StringIO()
    job = env.execute_async()
    assert isinstance(job, RunningJob)
    return Watch(job, source, folder, PlainView(Console(file=printed, width=200)), launched, stall_seconds), printed


def test_a_slow_machine_is_explained_and_does_not_fail(tmp_path: Path) -> None:
    source = SlowSource(seconds=0.2)
    watched, printed = watch(source, tmp_path, start_seconds=100, stall_seconds=400)
    watched.until_over()
    assert written_findings(tmp_path) == true_findings(source.everything())
    lines = printed.getvalue().splitlines()
    (live,) = (line for line in lines if "the stream is live" in line)
    assert live.startswith("  0.0 s  * first epoch committed after 10")  # the clock starts here, not at the launch
    assert watched.pace.summary() is not None
    assert "because this machine is slow or busy" in str(watched.pace.summary())


def test_a_job_that_commits_nothing_is_stuck(tmp_path: Path) -> None:
    watched, _ = watch(StuckSource(seconds=0.2), tmp_path, start_seconds=0, stall_seconds=3)
    with pytest.raises(TimeoutError, match=r"no epoch was committed in \d+ s since the .*load .* on \d+ cores"):
        watched.until_over()


def test_a_delay_is_reported_when_it_has_doubled() -> None:
    pace = Pace(launched=0, total_records=30 * PAYMENTS_PER_SECOND, stall_seconds=300)
    assert pace.new_delay(50, 0) is None  # nothing is due before the first epoch
    pace.committed(100)
    assert pace.start_seconds == 100
    reported = [second for second in range(100, 140) if pace.new_delay(second, 0)]
    assert reported == [105, 110, 120]  # and no more after the end of the stream, at 130
    pace.ended(134)
    assert pace.summary() is None
    pace.ended(190)
    assert str(pace.summary()).startswith("A stream of 30 s took 90 s, because this machine is slow or busy (load ")


def test_time_without_an_epoch_counts_from_the_last_one() -> None:
    pace = Pace(launched=0, total_records=1, stall_seconds=300)
    pace.check(300)
    with pytest.raises(TimeoutError, match="301 s since the start"):
        pace.check(301)
    pace.committed(301)
    pace.check(601)
    with pytest.raises(TimeoutError, match="301 s since the last one"):
        pace.check(602)


def test_no_worker_is_killed_if_all_have_ended() -> None:
    with psutil.Popen(["true"]) as ended:
        ended.wait(60)
    assert kill_when_busy([Worker(0, ended)]) is None
    assert kill_when_busy([]) is None
