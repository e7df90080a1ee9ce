"""Runs the fraud detection, kills one of its workers halfway through, and checks the result."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from examples.support.findings import Alert, Findings, committed_files, read_lines, true_findings, written_findings
from examples.support.pace import Pace
from examples.support.page import keep_page, open_page
from examples.support.payments import PARTITIONS, PaymentSource
from examples.support.view import Progress, View, open_view
from examples.support.workers import Worker, kill_when_busy, workers_of_this_process
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import TidemillError
from tidemill.runtime.driver.job import RunningJob
from tidemill.runtime.observe.epoch_stats import EpochStats

#: A job that commits no epoch for this long is stuck, even on a machine that has much else to do.
_STALL_SECONDS: Final = 300.0
_SECONDS_TO_CANCEL: Final = 15
_POLL_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.5  # listing all processes takes a few milliseconds
_RATE_SECONDS: Final = 3.0

#: The metric that counts how often a stateful function was opened, which is when its state is loaded.
STARTS: Final = "starts"

Build = Callable[[StreamExecutionEnvironment, PaymentSource, Path], None]


def run_demo(env: StreamExecutionEnvironment, source: PaymentSource, build: Build, stay: float) -> int:
    """Run the program that ``build`` creates.

    Returns 0 if no result was lost or repeated, 130 if interrupted, and 1 otherwise. On a terminal, the page of the job
    stays open for ``stay`` seconds at the end.
    """
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as folder:
        output, spark_log = Path(folder) / "output", Path(folder) / "spark.log"
        has_page = open_page(console, env, Path(folder))
        try:
            with open_view(console) as view, _warnings_shown(view):
                launched = time.monotonic()
                view.event("starting Spark")
                build(env, source, output)
                with _standard_error_into(spark_log):
                    job = env.execute_async("fraud detection")
                if not isinstance(job, RunningJob):
                    raise TypeError("the demo watches jobs that run in this process")
                watch = Watch(job, source, output, view, launched)
                watch.until_over()
        except KeyboardInterrupt:
            console.print("Interrupted: the job is cancelled.")
            return 130
        except (TidemillError, TimeoutError) as error:
            log = spark_log.read_text(errors="replace").splitlines()[-30:]
            console.print(
                "The job failed:", str(error), "The end of Spark's log:", *log, sep="\n", markup=False, soft_wrap=True
            )
            return 1
        if explanation := watch.pace.summary():
            console.print(explanation, highlight=False, soft_wrap=True)
        code = judge(console, written_findings(output), true_findings(source.everything()), watch.recovery)
        if has_page:
            keep_page(console, stay)
        return code


@dataclass(frozen=True)
class Recovery:
    """The time from the kill of a worker to the next epoch committed by its replacement."""

    killed_pid: int
    seconds: float


class Watch:
    """Monitors a running job, and kills a worker."""

    def __init__(
        self,
        job: RunningJob,
        source: PaymentSource,
        output: Path,
        view: View,
        launched: float,
        stall_seconds: float = _STALL_SECONDS,
    ) -> None:
        # configuration
        self._job = job
        self._alert_folder = output / "alerts"
        self._view = view
        # transient
        self._progress = Progress(total_records=source.ticks * PARTITIONS)
        self.pace = Pace(launched, self._progress.total_records, stall_seconds)
        self._last_epoch = 0
        self._alert_files: set[Path] = set()
        self._recent: deque[tuple[float, int]] = deque()  # (when it was committed, records)
        self._workers: dict[int, Worker] = {}
        self._looked = 0.0
        self._killed_at = 0.0
        self._killed: Worker | None = None
        self.recovery: Recovery | None = None

    def until_over(self) -> None:
        """Wait until the job has finished, and raise its error if it failed. Afterwards no part of it is running."""
        over = self._job.get_job_execution_result()
        try:
            while not over.done():
                self._step()
                time.sleep(_POLL_SECONDS)
            over.result()
            self._step()
            self.pace.ended(time.monotonic())
            self._view.event("the stream has ended, all results are committed")
        finally:
            if not over.done():
                with contextlib.suppress(TimeoutError):  # the original error matters more
                    self._job.cancel().result(_SECONDS_TO_CANCEL)

    def _step(self) -> None:
        now = time.monotonic()
        self._note_epochs(now)
        self.pace.check(now)
        self._note_alerts()
        if now - self._looked > _LOOK_SECONDS:
            self._look_at_workers()
        half_way = self._progress.records * 2 >= self._progress.total_records
        if half_way and self._killed is None:
            self._kill()
        self._view.show(self._progress)

    def _note_epochs(self, now: float) -> None:
        """Record the epochs that were committed since the last call."""
        new = [stats for stats in list(self._job.epochs) if stats.epoch > self._last_epoch]
        progress = self._progress
        if new:
            self.pace.committed(now)
        if new and not self._last_epoch:
            self._view.restart_clock()
            self._view.event(f"first epoch committed after {self.pace.start_seconds:.1f} s, the stream is live")
        for stats in new:
            self._last_epoch = stats.epoch
            progress.epochs += 1
            progress.records += stats.records_in
            progress.state_entries = stats.state_entries
            progress.bytes_last_epoch = stats.delta_bytes
            progress.bytes_written += stats.delta_bytes
            progress.epoch_seconds.append(stats.seconds)
            self._recent.append((now, stats.records_in))
            if self._killed and self.recovery is None and _starts(stats):
                self._note_recovery(Recovery(self._killed.pid, now - self._killed_at))
        while self._recent and now - self._recent[0][0] > _RATE_SECONDS:
            self._recent.popleft()
        progress.rate = sum(records for _, records in self._recent) / _RATE_SECONDS
        if delay := self.pace.new_delay(now, progress.records):
            self._view.event(delay)

    def _note_alerts(self) -> None:
        new = [file for file in committed_files(self._alert_folder) if file not in self._alert_files]
        self._alert_files.update(new)
        for fields in read_lines(new):
            self._progress.alerts += 1
            self._view.alert(Alert(*fields))

    def _kill(self) -> None:
        self._look_at_workers()
        self._killed = kill_when_busy(list(self._workers.values()))
        if self._killed is None:
            return  # Spark is replacing its workers; the next step looks again
        self._killed_at = time.monotonic()
        share = self._progress.state_entries // len(self._workers)
        self._view.event(
            f"kill -9 {self._killed.pid}: the worker of lane {self._killed.lane}, in the middle of epoch "
            f"{self._last_epoch + 1}, with {share:,} state entries"
        )

    def _note_recovery(self, recovery: Recovery) -> None:
        """Record that an epoch was committed for which a new process, in place of the killed one, loaded state."""
        self.recovery = recovery
        self._look_at_workers()
        workers = ", ".join(str(worker.pid) for worker in self._workers.values())
        self._view.event(
            f"recovered in {recovery.seconds:.1f} s: a new worker has loaded the committed state, "
            f"epoch {self._last_epoch} is committed (workers: {workers})"
        )

    def _look_at_workers(self) -> None:
        self._looked = time.monotonic()
        self._workers = workers_of_this_process()
        self._progress.workers = {lane: worker.pid for lane, worker in self._workers.items()}


def _starts(stats: EpochStats) -> float:
    """The number of subtasks that were started in an epoch because no worker had them in memory."""
    return sum(value for name, value in stats.metrics.items() if name.endswith(f".{STARTS}"))


def judge(console: Console, found: Findings, truth: Findings, recovery: Recovery | None) -> int:
    """Print the comparison and the verdict, and return the exit code."""
    table = Table(title="what the job wrote, and the truth", title_justify="left")
    for heading in ("", "job", "truth"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, job, true in (
        ("payments counted", found.payments, truth.payments),
        ("cards with a statement", len(found.statements), len(truth.statements)),
        ("amount, in cents", found.cents, truth.cents),
        ("alerts", len(found.alerts), len(truth.alerts)),
        ("different alerts", len(set(found.alerts)), len(set(truth.alerts))),
        ("statements that differ", len(set(found.statements) ^ set(truth.statements)), 0),
        ("alerts that differ", len(set(found.alerts) ^ set(truth.alerts)), 0),
    ):
        table.add_row(name, f"{job:,}", f"{true:,}", style=None if job == true else "bold red")
    console.print(table)
    if recovery is None:
        console.print("[bold red]No worker was killed and replaced: the demo has shown nothing.[/]")
        return 1
    killed = f"Worker {recovery.killed_pid} was killed, the job recovered in {recovery.seconds:.1f} s."
    console.print(killed, highlight=False)
    if found != truth:
        console.print("[bold red]The results differ from the truth.[/]")
        return 1
    console.print("[bold green]Nothing lost, nothing repeated.[/]")
    return 0


@contextlib.contextmanager
def _standard_error_into(path: Path) -> Iterator[None]:
    """Redirect the log of processes started in this block (Spark) to a file, so that it does not disturb the view."""
    saved = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@contextlib.contextmanager
def _warnings_shown(view: View) -> Iterator[None]:
    """Show Tidemill's warnings, such as a job restart, among the events."""

    class ToView(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            view.event(record.getMessage().splitlines()[0])

    handler, log = ToView(logging.WARNING), logging.getLogger("tidemill")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
