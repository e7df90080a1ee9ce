"""The page for everybody: by keyboard alone, for screen readers, in the dark, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import faults_of
from tests.browser.jobs import Served
from tests.browser.visitor import Visitor

VIEWS = ("graph", "epochs", "checkpoints", "state", "metrics", "exceptions", "config", "logs")
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
WITHOUT_LOG = r"status of 404.*/logs"


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_fault_in_a_view_in_light_or_dark(visitor: Visitor, view: str) -> None:
    visitor.expect_complaint(WITHOUT_LOG)
    tab = visitor.look(view)
    show_all(tab, view)
    assert faults_of(tab) == []
    tab.emulate_media(color_scheme="dark")
    try:
        assert faults_of(tab, rules=["color-contrast"]) == []
    finally:
        tab.emulate_media(color_scheme="light")


def test_axe_finds_no_fault_in_the_list_of_jobs(visitor: Visitor) -> None:
    tab = visitor.go()
    expect(tab.get_by_role("link", name="orders")).to_be_visible()
    assert faults_of(tab) == []


@pytest.mark.parametrize("action", ["Savepoint", "Rescale", "Stop", "Cancel"])
def test_axe_finds_no_fault_in_a_dialog(visitor: Visitor, action: str) -> None:
    tab = visitor.look("config")
    tab.get_by_role("button", name=action, exact=True).click()
    expect(tab.get_by_role("dialog")).to_be_visible()
    assert faults_of(tab) == []


def test_on_a_phone_nothing_has_to_be_scrolled_sideways(visit: Callable[..., Visitor], running: Served) -> None:
    visitor = visit(running, **PHONE)
    visitor.expect_complaint(WITHOUT_LOG)
    tab = visitor.go()
    expect(tab.get_by_role("link", name="orders")).to_be_visible()
    too_wide = {"jobs": wider_than_the_screen(tab)}
    for view in VIEWS:
        tab = visitor.look(view)
        expect(tab.locator("nav [aria-current=page]")).to_be_in_viewport(ratio=0.9)
        show_all(tab, view)
        too_wide[view] = wider_than_the_screen(tab)
    assert not any(too_wide.values()), too_wide
    visitor.look("graph")
    expect(tab.get_by_role("button", name="List")).to_have_attribute("aria-pressed", "true")
    tab.get_by_role("button", name=re.compile("spending")).click()
    expect(tab.get_by_role("complementary")).to_be_in_viewport()
    assert wider_than_the_screen(tab) == []


def test_dark_and_light_follow_the_system_and_can_be_chosen(visit: Callable[..., Visitor], running: Served) -> None:
    tab = visit(running, color_scheme="dark").tab()
    dark = background(tab)
    tab.emulate_media(color_scheme="light")
    light = background(tab)
    assert sum(dark) < 200 < 500 < sum(light)
    look = tab.get_by_role("button", name=re.compile("^Theme: "))
    while "dark" not in (look.get_attribute("aria-label") or ""):
        look.click()
    assert background(tab) == dark
    tab.reload()
    expect(look).to_have_accessible_name(re.compile("^Theme: dark"))
    assert background(tab) == dark


def test_a_savepoint_is_taken_by_keyboard_alone(visitor: Visitor, running: Served) -> None:
    tab = visitor.go()
    tab.reload()  # nothing has the focus
    expect(tab.get_by_role("link", name="orders")).to_be_visible()
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("link", name=re.compile("^Skip"))).to_be_focused()
    tab.keyboard.press("Enter")
    walk_to(tab, "orders")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="orders", level=1)).to_be_focused()
    walk_to(tab, "spending")
    tab.keyboard.press("Enter")
    panel = tab.get_by_role("complementary")
    expect(panel).to_contain_text("spending")
    tab.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    walk_to(tab, "Savepoint", backwards=True)
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("dialog")).to_be_visible()
    walk_to(tab, "Take savepoint")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("list", name="Results of actions")).to_contain_text("Savepoint complete")
    assert running.job.get_checkpoint_history().latest_savepoint is not None


def walk_to(tab: Page, name: str, backwards: bool = False) -> None:
    """Go on by the tabulator key until something of this name has the focus, which is to be seen."""
    for _ in range(60):
        tab.keyboard.press("Shift+Tab" if backwards else "Tab")
        focused = tab.locator(":focus")
        if focused.count() and name in focused.evaluate("element => element.ariaLabel || element.textContent"):
            assert focused.evaluate("element => getComputedStyle(element).outlineStyle") != "none"
            return
    pytest.fail(f"the tabulator key does not lead to {name}")


def show_all(tab: Page, view: str) -> None:
    """Wait for what a view has to show, and open what can be opened."""
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    if view == "graph":
        expect(tab.get_by_role("button", name=re.compile("spending"))).to_be_visible()
    elif view == "state":
        tab.get_by_role("button", name="Entries of spent").click()
        expect(tab.get_by_role("search")).to_be_visible()
    elif view == "exceptions":
        expect(tab.get_by_role("region", name="Traceback of ValueError")).to_be_visible()
    elif view == "config":
        expect(tab.get_by_role("main")).to_contain_text("execution.target")
    elif view == "logs":
        expect(tab.get_by_text("has no log file")).to_be_visible()
    elif view in ("epochs", "checkpoints"):
        expect(tab.get_by_role("main").get_by_role("rowheader").first).to_be_visible()
        if view == "checkpoints":
            tab.get_by_role("button", name=re.compile("what each subtask wrote")).first.click()
            tab.get_by_role("button", name=re.compile("^spending")).click()
            expect(tab.get_by_role("table", name="What each subtask wrote")).to_be_visible()
        else:
            tab.get_by_text("What the phases are").click()
    elif view == "metrics":
        expect(tab.get_by_role("main").locator("option[value='currentEpoch']")).to_have_count(1)
        tab.get_by_role("button", name="Add chart").click()
        expect(tab.locator(".metric-charts figure")).to_have_count(1)


def wider_than_the_screen(tab: Page) -> list[str]:
    """What makes the page scroll sideways; what scrolls in a box of its own does not."""
    found: list[str] = tab.evaluate(
        """() => {
            const page = document.documentElement;
            if (page.scrollWidth <= page.clientWidth) return [];
            const wide = [...document.querySelectorAll("main *")].filter(
                element => element.getBoundingClientRect().right > page.clientWidth + 1);
            return [`by ${page.scrollWidth - page.clientWidth} pixels`, ...wide.map(element => element.className)];
        }"""
    )
    return found


def background(tab: Page) -> list[int]:
    """The colour of the page as red, green and blue."""
    told: str = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in re.findall(r"\d+", told)[:3]]
