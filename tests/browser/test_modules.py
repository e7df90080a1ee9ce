"""What the page's modules compute, in the browser that runs them: texts for numbers, places of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.jobs import Served
from tests.browser.visitor import PATIENCE

#: (function of format.js, its arguments, what it gives).
FORMATS = [
    ("count", [1234567], "1,234,567"),
    ("count", [None], "\N{EN DASH}"),
    ("short", [1234567], "1.23 M"),
    ("short", [999.96], "1 k"),
    ("rate", [1234], "1.23 k/s"),
    ("rate", [0], "0/s"),
    ("bytes", [0], "0 B"),
    ("bytes", [1536], "1.5 KiB"),
    ("bytes", [123456789], "118 MiB"),
    ("percent", [0.318], "32 %"),
    ("percent", [0.0004], "<1 %"),
    ("percent", [0], "0 %"),
    ("duration", [0.25], "250 µs"),
    ("duration", [1530], "1.53 s"),
    ("duration", [3723000], "1 h 2 min"),
    ("duration", [90061000], "1 d 1 h"),
    ("uptime", [999], "0 s"),
    ("uptime", [185_000], "3 min 5 s"),
    ("watermark", [None], "none yet"),
    ("watermark", [-(2**63)], "none yet"),
    ("watermark", [2**63 - 1], "end of input"),
    ("watermark", [1_700_000_000_000, 1_700_000_042_000], "42 s behind"),
    ("watermark", [1_700_000_042_000, 1_700_000_000_000], "42 s ahead"),
    ("watermark", [1_700_000_000_500, 1_700_000_000_000], "now"),
    ("watermark", [12_345], "12,345"),
    ("plural", [1, "key"], "1 key"),
    ("plural", [3, "key"], "3 keys"),
]


@pytest.fixture(scope="module")
def tab(browser: Browser, running: Served) -> Iterator[Page]:
    """A tab with the page's modules at hand."""
    page = browser.new_page(locale="en-GB")
    page.set_default_timeout(PATIENCE)
    page.goto(running.server.url)
    yield page
    page.close()


def test_numbers_and_times_are_told_as_people_read_them(tab: Page) -> None:
    found = tab.evaluate(
        """async cases => {
            const format = await import("/web/format.js");
            return cases.map(([name, given]) => format[name](...given));
        }""",
        [(name, given) for name, given, _ in FORMATS],
    )
    expected = [text for _, _, text in FORMATS]
    assert list(zip(FORMATS, found, strict=True)) == list(zip(FORMATS, expected, strict=True))


@pytest.mark.parametrize("direction", ["across", "down"])
def test_a_graph_of_fifty_nodes_is_laid_out_without_overlaps(tab: Page, direction: str) -> None:
    nodes: list[dict[str, Any]] = [{"id": str(at), "inputs": []} for at in range(50)]
    for at, node in enumerate(nodes):
        node["inputs"] = [{"id": str(before), "label": {}} for before in {at // 2, at - 5} if 0 <= before < at]
    found = tab.evaluate(
        """async ([nodes, direction]) => {
            const {layout} = await import("/web/layout.js");
            const size = {width: 100, height: 60, gaps: {layers: 40, nodes: 10}};
            const made = layout(nodes, size, direction);
            return {...made, places: Object.fromEntries(made.places)};
        }""",
        [nodes, direction],
    )
    places = found["places"]
    assert len(places) == 50
    assert len(found["edges"]) == sum(len(node["inputs"]) for node in nodes)
    along = "x" if direction == "across" else "y"
    for edge in found["edges"]:
        assert places[edge["from"]][along] < places[edge["to"]][along]
    taken = list(places.values())
    for at, one in enumerate(taken):
        assert 0 <= one["x"] <= found["width"] - 100
        assert 0 <= one["y"] <= found["height"] - 60
        for other in taken[at + 1 :]:
            assert abs(one["x"] - other["x"]) >= 100 or abs(one["y"] - other["y"]) >= 60


def test_a_chain_is_laid_out_as_a_straight_line(tab: Page) -> None:
    nodes = [{"id": str(at), "inputs": [{"id": str(at - 1), "label": {}}] if at else []} for at in range(4)]
    heights = tab.evaluate(
        """async nodes => {
            const {layout} = await import("/web/layout.js");
            const size = {width: 100, height: 60, gaps: {layers: 40, nodes: 10}};
            return [...layout(nodes, size).places.values()].map(place => place.y);
        }""",
        nodes,
    )
    assert heights == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("highest", "base", "expected"),
    [
        (0, 1000, [0, 1]),
        (7, 1000, [0, 2, 4, 6, 8]),
        (100, 1000, [0, 25, 50, 75, 100]),
        (0.3, 1000, [0, 0.1, 0.2, 0.3]),
        (1.9 * 2**20, 1024, [0, 2**19, 2**20, 3 * 2**19, 2**21]),
        (3, 1024, [0, 1, 2, 3]),
    ],
    ids=["nothing", "small", "round", "fraction", "bytes", "few bytes"],
)
def test_the_axis_of_a_chart_has_round_numbers(tab: Page, highest: float, base: int, expected: list[float]) -> None:
    script = "async ([highest, base]) => (await import('/web/chart.js')).ticks(highest, base)"
    assert tab.evaluate(script, [highest, base]) == pytest.approx(expected)
