"""The driver goes, and tabs go: neither disturbs the other, and the page says how it stands."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error as BrowserError
from playwright.sync_api import Page, expect

from tests.browser.jobs import Served, fast, served, start_orders
from tests.browser.visitor import Visitor
from tests.ports import own_ports
from tests.waiting import eventually
from tidemill.ops.rest.server import RestServer


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Served]:
    """A job with a server of its own, which is to go."""
    (port,) = own_ports(1)  # nobody takes it while there is no server
    with served(lambda: start_orders(fast(tmp_path, **{"rest.port": str(port)}), tmp_path)) as found:
        yield found


def test_a_driver_that_is_gone_is_reported_and_found_again(visit: Callable[..., Visitor], alone: Served) -> None:
    visitor = visit(alone)
    visitor.expect_complaint("net::ERR_|Failed to fetch")
    tab = visitor.look("epochs")
    newest = tab.get_by_role("region", name="The last 50 epochs").get_by_role("rowheader").first
    expect(newest).to_have_text(re.compile(r"\d"))
    alone.server.close()
    expect(tab.get_by_text("The driver does not respond")).to_be_visible()
    expect(tab.get_by_text("Reconnecting")).to_be_visible()
    expect(newest).to_be_visible()
    alone.goes_on()
    again = RestServer(dataclasses.replace(alone.server.settings, ports=(alone.server.port,)))
    try:
        again.show(alone.job)
        expect(tab.get_by_text("Live", exact=True)).to_be_visible()
        expect(tab.get_by_text("The driver does not respond")).to_be_hidden()
        seen = newest.inner_text()
        expect(newest).not_to_have_text(seen)
    finally:
        again.close()


def test_a_tab_that_is_closed_leaves_nothing_open(visit: Callable[..., Visitor], running: Served) -> None:
    tab = visit(running).look()
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    streams = running.server.app.state.streams.open
    eventually(lambda: len(streams) == 1)
    tab.close()
    eventually(lambda: not streams)
    running.goes_on()


def test_a_tab_that_crashes_disturbs_no_job(visit: Callable[..., Visitor], running: Served) -> None:
    tab = visit(running).look()
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    with pytest.raises(BrowserError, match="crash"):
        tab.goto("chrome://crash")
    eventually(lambda: not running.server.app.state.streams.open)
    running.goes_on()


def test_a_tab_that_is_not_seen_asks_for_nothing(visitor: Visitor, running: Served) -> None:
    tab = visitor.look()
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    see(tab, False)
    eventually(lambda: not running.server.app.state.streams.open)
    expect(tab.get_by_text("Paused")).to_be_visible()
    asked = len(visitor.requests)
    running.goes_on()
    assert len(visitor.requests) == asked
    see(tab, True)
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()


def test_the_end_of_a_job_appears_on_an_open_page(visitor: Visitor, own: Served) -> None:
    tab = visitor.look(served=own)
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    own.job.cancel().result(60)
    expect(tab.get_by_role("main")).to_contain_text("Canceled")
    expect(tab.get_by_text("Ended", exact=True)).to_be_visible()
    tab.reload()
    expect(tab.get_by_role("main")).to_contain_text("Canceled")


def see(tab: Page, visible: bool) -> None:
    """Have the tab in front, or not: browsers without a window have all of them in front."""
    tab.evaluate(
        """visible => {
            Object.defineProperty(document, "hidden", {value: !visible, configurable: true});
            const state = visible ? "visible" : "hidden";
            Object.defineProperty(document, "visibilityState", {value: state, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        visible,
    )
