"""What a page lacks for people who cannot see it well, or use no mouse, by the rules of axe-core."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

#: WCAG 2.2, levels A and AA, and what axe's makers hold to be good practice.
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def faults_of(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    """Each fault with the elements that have it; none are left if this is empty. ``rules`` are all, or some by name."""
    if page.evaluate("!window.axe"):
        page.evaluate(_axe())
    only = {"type": "tag", "values": _RULES} if rules is None else {"type": "rule", "values": list(rules)}
    found: dict[str, Any] = page.evaluate(
        "only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only
    )
    return [
        f"{fault['id']}: {fault['help']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]
