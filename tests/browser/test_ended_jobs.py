"""The page of a job that ends: on the page of its driver, when that has ended too, and in a history."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import faults_of
from tests.browser.jobs import Served
from tests.browser.visitor import Visitor
from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.ops.rest.archived_jobs import ArchivedJobs
from tidemill.ops.rest.server import RestServer
from tidemill.ops.rest.settings import RestSettings

ROOT = Path(__file__).parents[2]
VIEWS = ("graph", "epochs", "checkpoints", "state", "metrics", "exceptions", "config", "logs")
#: A driver as users have them: it prints its address, and ends with its job, when the file is there.
DRIVER = """\
import sys
from pathlib import Path
from tests.browser.jobs import fast, start_orders
from tests.waiting import eventually
from tidemill.ops.rest.server import servers

folder = Path(sys.argv[1])
job = start_orders({**fast(folder), "history.interval": "1 s", "execution.job-id": "shop"}, folder, "shop")
print(servers()[-1].url, flush=True)
eventually((folder / "end").exists, 300)
job.cancel().result(60)
servers()[-1].finish()
"""


@dataclass
class Driver:
    """A driver in a process of its own; it looks like a job that is served."""

    process: subprocess.Popen[str]
    folder: Path
    url: str

    @property
    def served(self) -> Served:
        return SimpleNamespace(server=SimpleNamespace(url=self.url), id="shop")  # type: ignore[return-value]

    def end(self) -> None:
        (self.folder / "end").touch()
        assert self.process.wait(60) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    try:
        yield Driver(process, tmp_path, process.stdout.readline().strip())
    finally:
        for one in (*psutil.Process(process.pid).children(recursive=True),) if process.poll() is None else ():
            one.kill()
        process.kill()
        process.wait()
        process.stdout.close()


def epoch(tab: Page) -> int:
    return int(tab.locator(".job-facts dd").first.inner_text().replace(",", "") or 0)


def see_everything(tab: Page, url: str) -> None:
    """Every view has what a job of some epochs has."""

    def view(name: str) -> None:
        tab.goto(f"{url}/#/jobs/shop/{name}")

    view("graph")
    expect(tab.get_by_role("button", name=re.compile("spending"))).to_be_visible()
    tab.get_by_role("button", name=re.compile("spending")).click()
    subtasks = tab.get_by_role("region", name="Subtasks")
    expect(subtasks.get_by_role("row").nth(2)).to_contain_text(re.compile("^2"))
    view("epochs")
    expect(tab.get_by_role("region", name=re.compile("The last .* epochs")).get_by_role("row").nth(3)).to_be_visible()
    view("checkpoints")
    expect(tab.get_by_role("row", name=re.compile("completed")).first).to_be_visible()
    view("state")
    expect(tab.get_by_role("rowheader", name="spent")).to_be_visible()
    view("exceptions")
    expect(tab.get_by_text("order 90 has no price").first).to_be_visible()
    view("config")
    expect(tab.get_by_text("execution.epoch.min-interval")).to_be_visible()


def test_the_page_of_a_job_stays_usable_when_its_driver_has_ended(
    visit: Callable[..., Visitor], driver: Driver
) -> None:
    visitor = visit(driver.served)
    visitor.expect_complaint("ERR_|status of 404|Failed to load")
    tab = visitor.tab("#/jobs/shop/graph")
    eventually(lambda: epoch(tab) > 4)
    driver.end()
    expect(tab.locator(".job-line")).to_contain_text("Canceled")
    see_everything(tab, driver.url)
    expect(tab.get_by_role("status").filter(has_text="The driver has ended")).to_be_visible()
    assert "Retrying" not in tab.inner_text("body")
    expect(tab.locator(".job-facts")).to_contain_text("Ran for")
    for action in ("Savepoint", "Rescale", "Stop", "Cancel"):
        expect(tab.get_by_role("button", name=action, exact=True)).to_be_disabled()


def test_the_page_of_a_killed_driver_shows_no_running_job(visit: Callable[..., Visitor], driver: Driver) -> None:
    visitor = visit(driver.served)
    visitor.expect_complaint("ERR_|Failed to load")
    tab = visitor.tab("#/jobs/shop/graph")
    eventually(lambda: epoch(tab) > 4)
    driver.kill()
    expect(tab.locator(".job-line")).to_contain_text("Last seen running")
    expect(tab.get_by_role("status").filter(has_text="The driver does not respond")).to_be_visible()


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_history_shows_all_of_an_ended_job(visit: Callable[..., Visitor], driver: Driver, how: str) -> None:
    first = visit(driver.served)
    first.expect_complaint("ERR_|Failed to load|404")
    page = first.look()  # loaded once: each new page begins without data
    eventually(lambda: epoch(page) > 4)
    records = driver.folder / "checkpoints" / "_history"
    eventually(lambda: any(b'"epoch": 4' in one.read_bytes() for one in records.rglob("*.json")))
    getattr(driver, how)()
    server = RestServer(RestSettings(ports=(0,)), None, ArchivedJobs([str(records)], Configuration()))
    try:
        visitor = visit(SimpleNamespace(server=server, id="shop"))
        visitor.expect_complaint("status of 404")
        tab = visitor.tab()
        expect(tab.get_by_role("banner")).to_contain_text("History")
        state = "Canceled" if how == "end" else "Suspended"
        row = tab.get_by_role("row", name=re.compile("shop"))
        expect(row).to_contain_text(state)  # after a while, if it was killed
        assert "another driver" not in row.inner_text()
        row.get_by_role("link", name="shop").click()
        expect(tab.locator(".job-line")).to_contain_text(state)
        told = "recorded at the end of the job" if how == "end" else "The driver ended without a final record"
        expect(tab.get_by_text(told)).to_be_visible()
        expect(tab.get_by_text("no actions are available")).to_be_visible()
        see_everything(tab, server.url)
        for view in VIEWS:
            assert faults_of(visitor.look(view)) == [], view
    finally:
        server.close()
