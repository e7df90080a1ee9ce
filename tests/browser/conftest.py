"""A browser for each module of tests, and a job that only runs, with a user who watches it.

The browser is of a module, not of the whole run: while it is there, asyncio cannot be used in this thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.jobs import Served, fast, served, start_orders
from tests.browser.visitor import PATIENCE, Visitor
from tests.chromium import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings for all jobs of a module, so that one server shows them."""
    return fast(tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="module")
def running(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The job with the orders, which has failed once and continued."""
    folder = tmp_path_factory.mktemp("orders")
    with served(lambda: start_orders(settings, folder), epochs=5) as found:
        yield found


@pytest.fixture
def own(running: Served, settings: dict[str, str], tmp_path: Path) -> Iterator[Served]:
    """A job for one test alone, beside the one that is always there."""
    places = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    with served(lambda: start_orders(settings | places, tmp_path, "own"), beside=running) as found:
        yield found


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Makes visitors with browsers of their own; at the end of the test they tell what was wrong, and leave."""
    visitors: list[Visitor] = []

    def come(server: Served, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, server, **options))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.check()
        visitor.leave()


@pytest.fixture(scope="module")
def watcher(browser: Browser, running: Served) -> Iterator[Visitor]:
    """A user who watches the job with the orders, all the time."""
    visitor = Visitor(browser, running)
    yield visitor
    visitor.leave()


@pytest.fixture
def visitor(watcher: Visitor) -> Iterator[Visitor]:
    """The same, who tells at the end of the test what was wrong."""
    yield watcher
    watcher.check()
