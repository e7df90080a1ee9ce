"""``python -m bench.soak``: a job of 50 operators commits 10 000 tiny epochs while its web page is open.

Over the second half of the run, the driver's memory, threads, open files and checkpoint files must not grow. The page
must cost the driver less than 1 % of a core, measured as the CPU time of the REST server's threads divided by the time
of the run. Otherwise the run fails (exit code 1). With ``--chromium``, a real browser also displays the page, and its
CPU usage is reported.

The local engine runs in the driver's process, so the driver's memory includes that of the operators. With
``--engine spark``, the operators run in separate processes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench.soak_job import build
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.server import servers

#: The largest share of a core that the page may use.
MOST_SHARE = 0.01
#: The largest growth over the second half of the run. If each epoch leaked two kilobytes, 5 000 epochs would leak
#: 10 MB; smaller growth is caused by the allocator.
_MOST_MB = 8.0
#: Blocks of Python's memory that an epoch may leak. The record of one epoch takes at least 30 blocks.
_MOST_BLOCKS = 15
#: A page that has received no event for this time is not live. It normally receives events every two seconds.
_LIVE_SECONDS = 60.0
#: Threads that serve the page: the server's event loop, and its worker threads.
_REST_THREADS = ("tidemill-rest", "AnyIO worker thread")


@dataclass(frozen=True)
class Settings:
    """The parameters of a run. ``pages`` is the number of open pages."""

    epochs: int = 10_000
    operators: int = 50
    engine: str = "local"
    parallelism: int = 1
    pages: int = 1
    chromium: bool = False
    samples: int = 20
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """The resource usage of the driver after a number of epochs.

    ``blocks`` are the allocated blocks of Python's memory after a garbage collection. ``children`` is the memory in MB
    of the processes that the driver has started: with Spark, the JVM and its Python workers.
    """

    epoch: int
    seconds: float
    megabytes: float
    children: float
    blocks: int
    threads: int
    open_files: int
    files: int
    history: int
    share: float


@dataclass
class Report:
    """The result of a run."""

    settings: Settings
    samples: list[Sample]
    share: float
    pages: list[dict[str, float]]
    browser: float | None = None

    def failures(self, most_share: float = MOST_SHARE) -> list[str]:
        """Describe each limit that was exceeded."""
        half = len(self.samples) // 2
        first, second = self.samples[:half], self.samples[half:]

        third = len(second) // 3

        def grew(what: Callable[[Sample], float]) -> float:
            """The growth of the minimum from the first to the last third, which excludes temporary peaks."""
            return min(map(what, second[-third:])) - min(map(what, second[:third]))

        found = []
        filling = second[-1].history > second[0].history  # in a short run the history is not full yet
        if (megabytes := grew(lambda one: one.megabytes)) > _MOST_MB:
            found.append(f"the driver grew by {megabytes:.1f} MB over the second half")
        blocks = grew(lambda one: one.blocks) / (second[-third].epoch - second[0].epoch)
        if blocks > _MOST_BLOCKS and not filling:
            found.append(f"Python's memory grew by {blocks:.0f} blocks with each epoch of the second half")
        for name, slack in (("threads", 4), ("open_files", 8), ("files", 64), ("history", 1000)):
            before, after = (max(getattr(one, name) for one in part) for part in (first, second))
            if after > before + slack:
                found.append(f"{name.replace('_', ' ')}: {after} in the second half, {before} in the first")
        if self.share > most_share:
            found.append(f"the page took {self.share:.2%} of a core")
        if any(not page["epochs"] or page["seconds since the last event"] > _LIVE_SECONDS for page in self.pages):
            found.append("an open page received no epochs, or stopped receiving them")
        return found

    def table(self) -> Table:
        """The samples."""
        table = Table(title=f"{self.settings.operators} operators, {self.settings.engine} engine, page in use")
        for heading in asdict(self.samples[0]):
            table.add_column(heading.replace("_", " "), justify="right")
        for one in self.samples:
            table.add_row(
                f"{one.epoch:,}",
                f"{one.seconds:.0f}",
                f"{one.megabytes:.1f}",
                f"{one.children:.0f}",
                f"{one.blocks:,}",
                *(str(number) for number in (one.threads, one.open_files, one.files, one.history)),
                f"{one.share:.2%}",
            )
        return table


class RestTime:
    """Measures the CPU time of the threads that serve the page. Poll it frequently, because threads end."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}

    def seconds(self) -> float:
        """The CPU time so far, in seconds."""
        for thread in threading.enumerate():
            if thread.name.startswith(_REST_THREADS) and thread.native_id is not None:
                try:
                    nanos = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii").split()[0]
                except OSError:
                    continue  # the thread has ended
                self._seen[thread.native_id] = int(nanos) / 1e9
        return sum(self._seen.values())


def soak(settings: Settings, directory: Path, on_sample: Callable[[Sample], object] = lambda sample: None) -> Report:
    """Run the job with its open pages until it has committed all epochs."""
    options = {
        "execution.job-id": "soak",
        "execution.checkpointing.dir": str(directory),
        "execution.epoch.max-records": "20",
        "parallelism.default": str(settings.parallelism),
        "rest.enabled": "true",
        "rest.port": "0",
        **({"execution.target": "local"} if settings.engine == "local" else {}),
        **settings.options,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    build(env, settings.operators)
    client: Any = env.execute_async("soak")
    server = servers()[-1]
    try:
        with ExitStack() as viewers:
            pages = [viewers.enter_context(_page(server.url)) for _ in range(settings.pages)]
            browser = viewers.enter_context(_browser(server.url)) if settings.chromium else None
            samples, share = _watch(client, settings, directory, on_sample)
            used = None if browser is None else browser()
            results = [_result_of(page) for page in pages]
    finally:
        client.cancel().result()
        server.close()
    return Report(settings, samples, share, results, used)


def _watch(
    client: Any, settings: Settings, directory: Path, on_sample: Callable[[Sample], object]
) -> tuple[list[Sample], float]:
    me, rest = psutil.Process(), RestTime()
    samples: list[Sample] = []
    began, used = time.monotonic(), rest.seconds()
    since, before = began, used
    last = client.epochs[-1].epoch if client.epochs else 0
    while len(samples) < settings.samples:
        epoch = client.epochs[-1].epoch if client.epochs else 0
        if epoch < last + settings.epochs / settings.samples:  # a delayed sample must not shorten the next interval
            if client.get_job_status().result().is_terminal_state():
                client.get_job_execution_result().result()
            rest.seconds()
            time.sleep(0.1)
            continue
        now, spent = time.monotonic(), rest.seconds()
        gc.collect()
        sample = Sample(
            epoch,
            now - began,
            _resident(me),
            sum(map(_resident, me.children(recursive=True))),
            sys.getallocatedblocks(),
            threading.active_count(),
            me.num_fds(),
            sum(len(names) for _, _, names in os.walk(directory)),
            len(client.epochs),
            (spent - before) / (now - since),
        )
        samples.append(sample)
        on_sample(sample)
        since, before, last = now, spent, epoch
    return samples, (before - used) / (since - began)


def _resident(process: psutil.Process) -> float:
    """The resident memory in MB, or 0 for a process that has ended."""
    try:
        return float(process.memory_info().rss / (1 << 20))
    except psutil.Error:
        return 0.0


@contextmanager
def _page(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.soak_page", url, "soak"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout is not None
        page.stdout.readline()
        try:
            yield page
        finally:
            page.kill()


def _result_of(page: subprocess.Popen[str]) -> dict[str, float]:
    """End a page process, and return what it received."""
    output, _ = page.communicate()
    result: dict[str, float] = json.loads(output)
    return result


@contextmanager
def _browser(url: str) -> Iterator[Callable[[], float]]:
    """Display the job in a browser, and yield a function that returns the share of a core it uses for the page."""
    from playwright.sync_api import sync_playwright  # needed only with --chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        browser.new_page().goto(f"{url}/#/jobs/soak/graph")
        time.sleep(5)  # until the page is drawn
        began, used = time.monotonic(), _renderers()
        yield lambda: (_renderers() - used) / (time.monotonic() - began)
        browser.close()


def _renderers() -> float:
    """The CPU seconds of all renderer processes among our descendants."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                times = process.cpu_times()
                found += times.user + times.system
        except psutil.Error:
            continue
    return found


def main() -> int:
    """Run the job, print and store the results. Returns 1 if a limit was exceeded."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--operators", type=int, default=50)
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--pages", type=int, default=1, help="number of open pages")
    parser.add_argument("--chromium", action="store_true", help="also open the page in a browser")
    arguments = parser.parse_args()
    settings = Settings(**vars(arguments))
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="tidemill-soak-") as directory:
        report = soak(
            settings,
            Path(directory),
            lambda one: console.print(f"[dim]epoch {one.epoch:,}: {one.megabytes:.1f} MB, page {one.share:.2%}[/dim]"),
        )
    Console(width=150).print(report.table())
    sys.stdout.write(f"the page took {report.share:.3%} of a core of the driver\n")
    if report.browser is not None:
        sys.stdout.write(f"the browser took {report.browser:.1%} of a core\n")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    target = results / f"soak-{time.strftime('%Y%m%d-%H%M%S')}.json"
    failures = report.failures()
    target.write_text(json.dumps({**asdict(report), "failures": failures}, indent=2), encoding="utf-8")
    sys.stdout.write(f"written to bench/results/{target.name}\n")
    for failure in failures:
        sys.stdout.write(f"FAILED: {failure}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
