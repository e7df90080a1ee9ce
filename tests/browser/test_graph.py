"""The dataflow graph: every vertex with what it does now, the panel of one, and the same as a list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.jobs import Served
from tests.browser.visitor import Visitor


def test_the_graph_has_the_vertices_of_the_plan_from_left_to_right(visitor: Visitor, running: Served) -> None:
    tab = visitor.look()
    plan = running.rest.read(f"/jobs/{running.id}/plan")["plan"]
    places: dict[str, Any] = {}
    for vertex in plan["nodes"]:
        node = node_of(tab, vertex["operator"].replace("->", "→"))
        expect(node).to_contain_text(f"\N{MULTIPLICATION SIGN}{vertex['parallelism']}")
        places[vertex["id"]] = node.bounding_box()
    for vertex in plan["nodes"]:
        for edge in vertex["inputs"]:
            before, behind = places[edge["id"]], places[vertex["id"]]
            assert before["x"] + before["width"] < behind["x"]
    boxes = list(places.values())
    assert not any(overlap(one, other) for at, one in enumerate(boxes) for other in boxes[at + 1 :])
    expect(tab.locator("path.wire")).to_have_count(sum(len(vertex["inputs"]) for vertex in plan["nodes"]))


def test_a_vertex_shows_its_rates_how_busy_it_is_and_its_watermark(visitor: Visitor) -> None:
    tab = visitor.look()
    spending = node_of(tab, "spending")
    expect(spending).to_contain_text(re.compile(r"[1-9][\d.]*( k)?/s in · [1-9][\d.]*( k)?/s out"))
    expect(spending).to_contain_text(re.compile(r"Busy.*%.*Back pressure.*%"))
    expect(spending).to_contain_text(re.compile(r"Watermark .*(behind|ahead|now)"))
    expect(node_of(tab, "sales per window")).to_contain_text("exactly-once")


def test_a_vertex_is_opened_and_closed(visitor: Visitor) -> None:
    tab = visitor.look()
    node = node_of(tab, "spending")
    node.click()
    expect(node).to_have_attribute("aria-expanded", "true")
    panel = tab.get_by_role("complementary")
    expect(panel.get_by_role("heading", level=2)).to_be_focused()
    expect(panel.get_by_role("listitem").filter(has_text="spending")).to_contain_text("keyed")
    expect(panel.get_by_role("listitem").filter(has_text="spending")).to_contain_text("jobs.py:")
    subtasks = panel.get_by_role("region", name="Subtasks")
    expect(subtasks.get_by_role("rowheader")).to_have_text(["1", "2"])
    expect(subtasks.get_by_role("row").nth(1)).to_contain_text(re.compile(r"[1-9]"))
    panel.get_by_text("Metrics", exact=True).click()
    panel.get_by_role("searchbox").fill("numRecordsIn")
    expect(panel.get_by_role("rowheader").filter(has_text=re.compile("^numRecordsIn$"))).to_be_visible()
    tab.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(node).to_be_focused()


def test_the_graph_is_a_list_for_who_prefers_one_and_stays_so(visit: Callable[..., Visitor], running: Served) -> None:
    tab = visit(running).look()
    tab.get_by_role("button", name="List").click()
    row = tab.get_by_role("row").filter(has=tab.get_by_role("button", name=re.compile("spending")))
    expect(row).to_contain_text(re.compile(r"[1-9][\d.]*( k)?/s"))
    expect(row).to_contain_text("HASH")
    row.get_by_role("button").first.click()
    expect(tab.get_by_role("complementary")).to_contain_text("spending")
    tab.reload()
    expect(tab.get_by_role("table", name="Vertices of the graph")).to_be_visible()


def test_the_graph_is_made_larger_and_smaller(visitor: Visitor) -> None:
    tab = visitor.look()
    node = node_of(tab, "spending")
    before = node.bounding_box()
    tab.get_by_role("button", name="Larger").click()
    larger = node.bounding_box()
    assert before is not None
    assert larger is not None
    assert larger["width"] > before["width"]
    tab.get_by_role("button", name="Fit to the width").click()
    after = node.bounding_box()
    assert after is not None
    # What is above the graph grows by a line now and then.
    assert {**after, "y": 0} == {**before, "y": 0}


def node_of(tab: Page, name: str) -> Locator:
    """The node whose chain begins with, or has, this name."""
    found = tab.get_by_role("region", name="Dataflow graph").get_by_role("button").filter(has_text=name)
    expect(found).to_have_count(1)
    return found


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two boxes have something in common."""
    apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    return not (apart or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"])
