"""What the page's modules compute, in the browser that runs them: texts for numbers, places of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
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


def test_numbers_and_times_are_formatted_for_people(tab: Page) -> None:
    found = tab.evaluate(
        """async cases => {
            const format = await import("/web/core/format.js");
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
            const {layout} = await import("/web/graph/layout.js");
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
            const {layout} = await import("/web/graph/layout.js");
            const size = {width: 100, height: 60, gaps: {layers: 40, nodes: 10}};
            return [...layout(nodes, size).places.values()].map(place => place.y);
        }""",
        nodes,
    )
    assert heights == [0, 0, 0, 0]


@pytest.mark.parametrize("shape", ["near", "far"])
def test_a_graph_of_two_thousand_nodes_is_laid_out_in_linear_time(tab: Page, shape: str) -> None:
    """What an edge costs does not grow with the graph: even the longest one has few bends, and no pair is compared."""
    nodes = [{"id": str(at), "inputs": inputs_of(at, shape)} for at in range(2_000)]
    found = tab.evaluate(
        """async nodes => {
            const {layout} = await import("/web/graph/layout.js");
            const size = {width: 100, height: 60, gaps: {layers: 40, nodes: 10}};
            const begun = performance.now();
            const made = layout(nodes, size);
            return {
                millis: performance.now() - begun,
                places: made.places.size,
                edges: made.edges.length,
                most: Math.max(...made.edges.map(edge => edge.path.match(/[A-Z]/g).length)),
            };
        }""",
        nodes,
    )
    assert (found["places"], found["edges"]) == (2_000, sum(len(node["inputs"]) for node in nodes))
    assert found["most"] <= 1 + 12 + 11
    assert found["millis"] < 10_000, "0.2 s on an idle machine; 28 s for an algorithm that compares pairs"


def inputs_of(at: int, shape: str) -> list[dict[str, Any]]:
    """Two inputs, of which one may be anywhere before (``far``), so that a path goes through all nodes."""
    before = {at - 1, at * at // 7 % at if shape == "far" else at - 1 - at * 7919 % 40} if at else set()
    return [{"id": str(one), "label": {}} for one in before if one >= 0]


def test_a_long_edge_runs_beside_the_graph(tab: Page) -> None:
    """One over many layers does not bend in each of them, and crosses no node."""
    nodes = [{"id": str(at), "inputs": [{"id": str(at - 1), "label": {}}] if at else []} for at in range(40)]
    for at, start in ((20, 0), (30, 2), (39, 22)):
        nodes[at]["inputs"].append({"id": str(start), "label": {}})  # type: ignore[attr-defined]
    found = tab.evaluate(
        """async nodes => {
            const {layout} = await import("/web/graph/layout.js");
            const made = layout(nodes, {width: 100, height: 60, gaps: {layers: 40, nodes: 10}});
            return {...made, places: [...made.places.values()]};
        }""",
        nodes,
    )
    lowest = max(place["y"] + 60 for place in found["places"])
    lanes = []
    for edge in found["edges"]:
        if int(edge["to"]) - int(edge["from"]) > 1:
            points = [tuple(map(float, point.split())) for point in re.findall(r"[\d.-]+ [\d.-]+", edge["path"])]
            across = [(a, b) for a, b in pairwise(points) if a[1] == b[1] and b[0] - a[0] > 200]
            assert len(across) == 1
            lanes.append(across[0])
            assert lowest < across[0][0][1] < found["height"]
    assert len(lanes) == 3
    (first, second, third) = (lane[0][1] for lane in sorted(lanes))
    assert first != second, "they run side by side"
    assert third == first, "a lane is used again where the one before has ended"


def test_crossings_are_counted(tab: Page) -> None:
    found = tab.evaluate(
        """async () => {
            const {crossings} = await import("/web/graph/ordering.js");
            const item = order => ({ order, behind: [] });
            const layers = [10, 12, 9].map(size => Array.from({ length: size }, (_, at) => item(at)));
            const links = [];
            let seed = 1;
            for (let at = 0; at < 60; at += 1) {
                const next = size => (seed = (seed * 48271) % 2147483647) % size;
                const layer = next(2);
                const [a, b] = [next(layers[layer].length), next(layers[layer + 1].length)];
                layers[layer][a].behind.push(layers[layer + 1][b]);
                links.push([layer, a, b]);
            }
            const pairs = links.flatMap((one, at) => links.slice(at + 1).map(other => [one, other]));
            const cross = ([[l, a, b], [m, c, d]]) => l === m && (a - c) * (b - d) < 0;
            return [crossings(layers), pairs.filter(cross).length];
        }"""
    )
    assert found[0] == found[1] > 100


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
    script = "async ([highest, base]) => (await import('/web/widgets/chart.js')).ticks(highest, base)"
    assert tab.evaluate(script, [highest, base]) == pytest.approx(expected)
