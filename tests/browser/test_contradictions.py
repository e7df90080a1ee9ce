"""No two parts of the page say different things about the same job."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.jobs import FAIL, Served, fast, served, start_orders
from tests.browser.visitor import Visitor
from tests.unit.ops.rest.serving import environment
from tests.waiting import eventually
from tidemill.common import Encoder, JobStatus
from tidemill.common.job_client import JobClient
from tidemill.datastream.connectors.file_system import FileSink

#: Of each visible table, the columns whose header is not above its cells, or not aligned as they are.
MISALIGNED = """() => [...document.querySelectorAll("table")].filter((table) => table.offsetParent).flatMap((table) => {
  const side = (cell) => getComputedStyle(cell).textAlign.replace("start", "left").replace("end", "right");
  const edge = (cell) => Math.round(cell.getBoundingClientRect().left);
  const rows = [...table.querySelectorAll("tbody tr")].filter((row) => row.children.length > 1);
  const heads = [...table.querySelectorAll("thead th")];
  return rows.flatMap((row) => heads.filter((head, at) => {
    const cell = row.children[at];
    return !cell || side(head) !== side(cell) || edge(head) !== edge(cell);
  }).map((head) => `${table.textContent.slice(0, 40)}: ${head.textContent}`));
})"""
#: The left edges of the columns of all tables of states.
COLUMNS = """() => [...document.querySelectorAll("table.states")].map((table) =>
  [...table.querySelectorAll("th[scope=col]")].map((head) => Math.round(head.getBoundingClientRect().left)).join())"""


def test_columns_are_aligned(visitor: Visitor) -> None:
    for view in ("epochs", "checkpoints", "state", "exceptions", "config"):
        tab = visitor.look(view)
        expect(tab.locator("table, .failure").first).to_be_visible()
        expect(tab.locator("table tbody tr, .failure").first).to_be_visible()
        assert tab.evaluate(MISALIGNED) == [], view
        if view == "state":
            assert len(set(tab.evaluate(COLUMNS))) == 1
    tab = visitor.look("graph")
    tab.get_by_role("button", name="List", exact=True).click()
    tab.get_by_role("button", name=re.compile("^spending")).click()
    expect(tab.get_by_role("region", name="Hottest keys")).to_be_visible()
    assert tab.evaluate(MISALIGNED) == [], "list and panel"
    tab.get_by_role("button", name="Graph", exact=True).click()
    tab.get_by_role("button", name="Rescale").click()
    expect(tab.get_by_role("dialog")).to_be_visible()
    assert tab.evaluate(MISALIGNED) == [], "dialog"
    assert visitor.go().evaluate(MISALIGNED) == [], "jobs"


def two_sinks(folder: Path, settings: dict[str, str]) -> JobClient:
    env = environment(settings)
    numbers = env.from_sequence(1, 10_000_000).uid("numbers").rebalance().map(str).uid("text")
    for name in ("first", "second"):
        sink = FileSink.for_row_format(str(folder / name), Encoder.simple_string_encoder()).build()
        numbers.sink_to(sink).name(name).uid(name)
    return env.execute_async("two sinks")


def test_a_guarantee_is_named_once(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    with served(lambda: two_sinks(tmp_path, fast(tmp_path))) as job:
        tab = visit(job).look()
        node = tab.locator(".node-promise")
        expect(node).to_have_count(1)
        expect(node).to_have_text("exactly-once")


def badge(tab: Page) -> str:
    return tab.locator(".job-line .badge").inner_text()


def test_a_failure_and_the_state_of_the_job_agree(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    """While it restarts, when it runs again, when it is cancelled: none may be followed by what was true before."""
    with served(lambda: start_orders(fast(tmp_path), tmp_path)) as job:
        tab = visit(job).look("exceptions")
        expect(tab.locator(".failure")).to_have_count(1)
        expect(tab.locator(".job-line")).to_contain_text("Running")
        expect(tab.get_by_role("main")).not_to_contain_text("not running")
        (tmp_path / FAIL).touch()
        expect(tab.locator(".failure")).to_have_count(2)
        eventually(lambda: "Running" in badge(tab) and "is restarting" not in tab.inner_text("main"))
        assert "has ended" not in tab.inner_text("main")
        job.job.cancel().result(60)
        expect(tab.locator(".job-line")).to_contain_text("Canceled")
        expect(tab.get_by_role("main")).not_to_contain_text(re.compile("is restarting|has ended because"))
        expect(tab.locator(".job-facts")).to_contain_text("Ran for")


def test_a_job_that_waits_to_restart_is_cancelled_at_once(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    slow = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 h"}

    def start() -> JobClient:
        env = environment({**fast(tmp_path), **slow})
        env.from_sequence(1, 10_000_000).uid("numbers").map(lambda n: 1 // (n - 500)).print()
        return env.execute_async("waiting")

    with served(start) as job:
        tab = visit(job).look("exceptions")
        expect(tab.locator(".job-line")).to_contain_text("Restarting")
        expect(tab.get_by_text("The job is restarting because of the first failure below.")).to_be_visible()
        seen: list[str] = []
        tab.get_by_role("button", name="Cancel", exact=True).click()
        dialog = tab.get_by_role("dialog")
        dialog.get_by_role("textbox").fill("cancel")
        dialog.get_by_role("button", name="Cancel the job").click()

        def is_over() -> bool:
            seen.append(badge(tab))
            return "Canceled" in seen[-1]

        eventually(is_over)
        told = tab.inner_text("main")
        assert "is restarting" not in told
        assert job.job.get_job_status().result() is JobStatus.CANCELED
        expect(tab.get_by_text("The job is cancelled.").first).to_be_visible()
        tab.wait_for_timeout(2_500)
        assert "Canceled" in badge(tab)


def test_nothing_is_pending_once_a_job_is_rescaled(visitor: Visitor, own: Served) -> None:
    tab = visitor.look(served=own)
    tab.get_by_role("button", name="Rescale").click()
    tab.get_by_label("For all operators").fill("3")
    tab.get_by_role("dialog").get_by_role("button", name="Rescale").click()
    expect(tab.locator(".node-width").first).to_contain_text("3")
    expect(tab.get_by_text("Rescaled: all operators: 3.").first).to_be_visible(timeout=10_000)
    expect(tab.get_by_role("progressbar")).to_have_count(0)
    tab.get_by_role("button", name="Rescale", exact=True).click()
    now = tab.get_by_role("dialog").locator("td.number")
    expect(now).to_have_text(["3"] * now.count())


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_the_page_is_never_wider_than_its_window(visit: Callable[..., Visitor], running: Served, width: int) -> None:
    visitor = visit(running, viewport={"width": width, "height": 800})
    visitor.expect_complaint("status of 404")
    for view in ("graph", "epochs", "checkpoints", "state", "metrics", "exceptions", "config", "logs"):
        tab = visitor.look(view)
        expect(tab.get_by_role("main")).to_contain_text("Running")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, view
