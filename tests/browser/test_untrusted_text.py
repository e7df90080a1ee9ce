"""Whatever a job is called, and whatever its data and errors say, is text on the page and never more than that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.jobs import Served, fast, served
from tests.browser.visitor import Visitor
from tests.unit.ops.rest.serving import environment
from tidemill.common import RestartStrategies
from tidemill.common.job_client import JobClient

IMAGE = "<img src=//evil.example/x onerror=alert(1)>"
SCRIPT = "</code></pre><script>alert(2)</script>"
LINK = "<a href='javascript:alert(3)'>here</a>"
STYLE = '"><style>*{display:none}</style>'
VIEWS = ("graph", "epochs", "checkpoints", "state", "exceptions", "config")


class Fails:
    """Raises once, in words that are markup."""

    def __init__(self, failed: Path) -> None:
        self._failed = failed

    def __call__(self, number: int) -> tuple[str, int]:
        if number == 50 and not self._failed.exists():
            self._failed.touch()
            raise ValueError(SCRIPT)
        return (f"{IMAGE}{number % 3}", number)


def start(settings: Mapping[str, str], folder: Path) -> JobClient:
    """A job all of whose names, keys and errors are markup."""
    env = environment(settings)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    pairs = env.from_sequence(1, 10_000_000).name(IMAGE).uid("numbers").map(Fails(folder / "failed")).name(SCRIPT)
    sums = pairs.uid("pairs").key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    sums.name(STYLE).uid(LINK).filter(lambda _: False).print()
    return env.execute_async(LINK)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    with served(lambda: start(fast(folder), folder), epochs=4) as found:
        yield found


@pytest.fixture(scope="module")
def watcher(browser: Browser, hostile: Served) -> Iterator[Visitor]:
    visitor = Visitor(browser, hostile)
    visitor.go().on("dialog", lambda dialog: pytest.fail(dialog.message))
    yield visitor
    visitor.leave()


def nothing_came_alive(tab: Page) -> None:
    """There is no element that the page did not make itself, and nothing asked to be shown."""
    made = "script:not([src]), style, iframe, object, embed, [onerror], a[href^='javascript'], main img"
    expect(tab.locator(made)).to_have_count(0)
    expect(tab.get_by_role("main")).to_be_visible()


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_takes_text_for_markup(visitor: Visitor, view: str) -> None:
    tab = visitor.look(view)
    expect(tab.get_by_role("heading", level=1)).to_have_text(LINK)
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    nothing_came_alive(tab)


def test_names_keys_and_errors_are_shown_as_they_are(visitor: Visitor) -> None:
    tab = visitor.go()
    tab.get_by_role("link", name=LINK).click()
    expect(tab.get_by_role("main")).to_contain_text(IMAGE)
    tab.get_by_role("link", name="Exceptions").click()
    expect(tab.get_by_role("region", name="Traceback of ValueError")).to_contain_text(f"ValueError: {SCRIPT}")
    tab.get_by_role("link", name="State", exact=True).click()
    tab.get_by_role("button", name="Entries of _reduce_state").click()
    expect(tab.get_by_role("rowheader").filter(has_text=f"{IMAGE}2")).to_be_visible()
    nothing_came_alive(tab)


def test_an_action_shows_hostile_names_as_text(visitor: Visitor) -> None:
    tab = visitor.look()
    tab.get_by_role("button", name="Rescale").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(re.escape(IMAGE)))
    nothing_came_alive(tab)
    tab.keyboard.press("Escape")


@pytest.mark.parametrize(
    "place", ["#/jobs/<img src=x onerror=alert(1)>/graph", "#/jobs/..%2f..%2fconfig/state", "#/jobs/%/x", "#/<script>"]
)
def test_an_address_is_text_too(visitor: Visitor, place: str) -> None:
    visitor.expect_complaint("status of (400|404)")
    tab = visitor.go(place)
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    nothing_came_alive(tab)
