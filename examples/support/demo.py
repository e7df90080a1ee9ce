"""Runs the fraud detection, kills one of its workers half-way, and judges the result."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from examples.support.findings import Alert, Findings, committed_files, read_lines, true_findings, written_findings
from examples.support.payments import PARTITIONS, PaymentSource
from examples.support.view import Progress, View, open_view
from examples.support.workers import Worker, kill_when_busy, workers_of_this_process
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import TidemillError
from tidemill.runtime.job import RunningJob

#: The demo promises to take less than 90 seconds; what takes longer has failed.
_SECONDS_ALLOWED: Final = 80
_SECONDS_TO_CANCEL: Final = 15
_POLL_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.5  # looking through all processes takes some milliseconds
_RATE_SECONDS: Final = 3.0

Build = Callable[[StreamExecutionEnvironment, PaymentSource, Path], None]


def run_demo(env: StreamExecutionEnvironment, source: PaymentSource, build: Build) -> int:
    """Run the program that ``build`` makes; 0 if nothing was lost and nothing repeated, 130 if interrupted, else 1."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as folder:
        output, spark_log = Path(folder) / "output", Path(folder) / "spark.log"
        try:
            with open_view(console) as view, _warnings_shown(view):
                view.event("starting Spark")
                build(env, source, output)
                with _standard_error_into(spark_log):
                    job = env.execute_async("fraud detection")
                if not isinstance(job, RunningJob):
                    raise TypeError("the demo watches jobs that run in this process")
                watch = _Watch(job, source, output, view)
                watch.until_over()
        except KeyboardInterrupt:
            console.print("Interrupted: the job is cancelled.")
            return 130
        except (TidemillError, TimeoutError) as error:
            console.print(f"[bold red]The job failed:[/] {error}", highlight=False)
            console.print("".join(spark_log.read_text(errors="replace").splitlines(keepends=True)[-30:]), markup=False)
            return 1
        return _judge(console, written_findings(output), true_findings(source.everything()), watch)


class _Watch:
    """Follows a running job, and does the killing."""

    def __init__(self, job: RunningJob, source: PaymentSource, output: Path, view: View) -> None:
        # configuration
        self._job = job
        self._alert_folder = output / "alerts"
        self._view = view
        # transient
        self._progress = Progress(total_records=source.ticks * PARTITIONS)
        self._started = time.monotonic()
        self._last_epoch = 0
        self._alert_files: set[Path] = set()
        self._recent: deque[tuple[float, int]] = deque()  # (when it was committed, records)
        self._workers: dict[int, Worker] = {}
        self._looked = 0.0
        self._killed_at = 0.0
        self.killed: Worker | None = None
        self.recovery_seconds: float | None = None

    def until_over(self) -> None:
        """Return when the job has finished; raise what it failed with. Nothing of it runs afterwards."""
        over = self._job.get_job_execution_result()
        try:
            while not over.done():
                self._step()
                time.sleep(_POLL_SECONDS)
                if time.monotonic() - self._started > _SECONDS_ALLOWED:
                    raise TimeoutError(f"it was not over after {_SECONDS_ALLOWED} seconds")
            over.result()
            self._step()
            self._view.event("the stream has ended, all results are committed")
        finally:
            if not over.done():
                self._job.cancel().result(_SECONDS_TO_CANCEL)

    def _step(self) -> None:
        now = time.monotonic()
        committed = self._note_epochs(now)
        self._note_alerts()
        if now - self._looked > _LOOK_SECONDS or (committed and self.killed and self.recovery_seconds is None):
            self._looked = now
            self._workers = workers_of_this_process()
            self._progress.workers = {slot: worker.pid for slot, worker in self._workers.items()}
        if self.killed is None:
            if self._workers and self._progress.records * 2 >= self._progress.total_records:
                self._kill()
        elif committed and self.recovery_seconds is None:
            self._note_recovery(now)
        self._view.show(self._progress)

    def _note_epochs(self, now: float) -> bool:
        """Take what was committed since the last look; whether there was anything."""
        new = [stats for stats in list(self._job.epochs) if stats.epoch > self._last_epoch]
        progress = self._progress
        for stats in new:
            self._last_epoch = stats.epoch
            progress.epochs += 1
            progress.records += stats.records_in
            progress.state_entries = stats.state_entries
            progress.bytes_last_epoch = stats.delta_bytes
            progress.bytes_written += stats.delta_bytes
            progress.epoch_seconds.append(stats.seconds)
            self._recent.append((now, stats.records_in))
        while self._recent and now - self._recent[0][0] > _RATE_SECONDS:
            self._recent.popleft()
        if new and progress.epochs == len(new):
            self._view.event("first epoch committed, the stream is live")
        progress.rate = sum(records for _, records in self._recent) / _RATE_SECONDS
        return bool(new)

    def _note_alerts(self) -> None:
        new = [file for file in committed_files(self._alert_folder) if file not in self._alert_files]
        self._alert_files.update(new)
        for fields in read_lines(new):
            self._progress.alerts += 1
            self._view.alert(Alert(*fields))

    def _kill(self) -> None:
        self.killed = kill_when_busy(list(self._workers.values()))
        self._killed_at = time.monotonic()
        share = self._progress.state_entries // len(self._workers)
        self._view.event(
            f"kill -9 {self.killed.pid}: the worker of slot {self.killed.slot}, in the middle of epoch "
            f"{self._last_epoch + 1}, with about {share:,} state entries in its memory"
        )

    def _note_recovery(self, now: float) -> None:
        """An epoch was committed after the kill; it counts if another process has done the work of the dead one."""
        heir = self._workers.get(self.killed.slot) if self.killed else None
        if heir is None or heir == self.killed:
            return
        self.recovery_seconds = now - self._killed_at
        self._view.event(
            f"recovered: process {heir.pid} has loaded the committed state of slot {heir.slot}, and epoch "
            f"{self._last_epoch} is committed, {self.recovery_seconds:.1f} s after the kill"
        )


def _judge(console: Console, found: Findings, truth: Findings, watch: _Watch) -> int:
    """Print the comparison and the verdict."""
    equal = found == truth
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
    if watch.killed is None or watch.recovery_seconds is None:
        console.print("[bold red]No worker was killed and recovered: the demo has shown nothing.[/]")
        return 1
    killed = f"Worker {watch.killed.pid} was killed, the job recovered in {watch.recovery_seconds:.1f} s."
    console.print(killed, highlight=False)
    if equal:
        console.print("[bold green]Nothing lost, nothing repeated.[/]")
        return 0
    console.print("[bold red]The results differ from the truth.[/]")
    return 1


@contextlib.contextmanager
def _standard_error_into(path: Path) -> Iterator[None]:
    """Let processes started in this block, that is Spark, write their log to a file instead of across the page."""
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
    """Show what Tidemill logs, such as a job that starts again, among the events."""

    class ToView(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            view.event(record.getMessage().splitlines()[0])

    handler, log = ToView(logging.WARNING), logging.getLogger("tidemill")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
