"""Takes the screenshots of the web page in docs/images: ``make screenshots``.

A job that monitors card payments runs in this process for most of a minute. It fails once, and savepoints are taken.
Chromium opens its page like a user.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, expect

from tests.chromium import chromium
from tidemill.common import Configuration, RestartStrategies
from tidemill.common.job_client import JobClient
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.server import servers

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
PROGRAM: Final = Path(__file__).with_name("pictured_job.py")
JOB: Final = "card-payments"
EPOCHS: Final = 90
LARGEST: Final = 200_000  # bytes per screenshot


class Shot(NamedTuple):
    """A screenshot: its view, its size, its color schemes, and the actions before it is taken."""

    name: str
    view: str
    height: int
    prepare: Callable[[Page], None] = lambda page: None
    width: int = 1200
    looks: tuple[str, ...] = ("light", "dark")


def open_vertex(page: Page) -> None:
    """Open the panel of a vertex, with its keys."""
    page.get_by_role("button", name="fraud detector").click()
    expect(page.get_by_role("complementary").get_by_role("region", name="Hottest keys")).to_be_visible()


def open_state(page: Page) -> None:
    """Open the state of a card."""
    page.get_by_role("button", name="Entries of totals").click()
    field = page.get_by_label("Look up a key", exact=True)
    field.fill("17")
    field.press("Enter")
    expect(page.get_by_role("rowheader", name="17", exact=True)).to_be_visible()
    page.evaluate("scrollTo(0, 0)")


SHOTS: Final = (
    Shot("graph", "graph", 740),
    Shot("vertex", "graph", 740, open_vertex, width=1400, looks=("light",)),
    Shot("epochs", "epochs", 900),
    Shot("checkpoints", "checkpoints", 860),
    Shot("state", "state", 900, open_state),
    Shot("exceptions", "exceptions", 800),
    Shot("phone", "graph", 780, width=390, looks=("light",)),
)


def program(folder: Path) -> ModuleType:
    """Load the job's program from a separate file, like that of a user: the page shows the path of its functions."""
    place = shutil.copy(PROGRAM, folder / "card_payments.py")
    spec = importlib.util.spec_from_file_location("card_payments", place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def start(folder: Path) -> JobClient:
    """Start the job, with its page on a free port."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "parallelism.default": "2",
        "rest.enabled": "true",
        "rest.port": "0",
        "execution.job-id": JOB,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "execution.epoch.min-interval": "400 ms",
        "web.checkpoints.history": "60",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 500))
    program(folder).build(env, folder)
    return env.execute_async("card payments")


def live_through(job: JobClient, folder: Path) -> None:
    """Wait until the job has data to show: a failure, two savepoints, and many epochs."""
    for wanted, then in (
        (EPOCHS // 3, (folder / "away").touch),
        (EPOCHS // 2, lambda: job.trigger_savepoint().result(30)),
        (EPOCHS * 4 // 5, lambda: job.trigger_savepoint().result(30)),
        (EPOCHS, lambda: None),
    ):
        while job.get_checkpoint_history().completed < wanted:
            time.sleep(0.2)
        then()


def take(browser: Browser, url: str) -> Iterator[Path]:
    """Take all screenshots, and yield their files."""
    for shot, look in [(one, look) for one in SHOTS for look in one.looks]:
        context = browser.new_context(
            viewport={"width": shot.width, "height": shot.height},
            color_scheme="dark" if look == "dark" else "light",
            device_scale_factor=1.25,
            reduced_motion="reduce",
            locale="en-GB",
        )
        page = context.new_page()
        page.goto(f"{url}/#/jobs/{JOB}/{shot.view}")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        shot.prepare(page)
        page.wait_for_timeout(3_000)  # at least one more message, so that the page shows figures
        file = IMAGES / f"page-{shot.name}-{look}.png"
        page.screenshot(path=file)
        context.close()
        yield file


def main() -> int:
    """Take all screenshots. The exit code is 1 if one is too large."""
    logging.getLogger("tidemill").setLevel(logging.ERROR)
    expect.set_options(timeout=30_000)
    folder = Path(tempfile.gettempdir()) / JOB
    folder.mkdir()
    try:
        with chromium() as browser:
            job = start(folder)
            try:
                live_through(job, folder)
                (server,) = servers()
                files = list(take(browser, server.url))
            finally:
                job.cancel().result(30)
    finally:
        shutil.rmtree(folder)
    for file in files:
        print(f"{file.relative_to(Path.cwd())}: {file.stat().st_size // 1000} kB")
    return int(any(file.stat().st_size > LARGEST for file in files))


if __name__ == "__main__":
    sys.exit(main())
