"""Who may see what: the page asks for a token where one is needed, and says what a token does not allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.jobs import Served, fast, served, start_orders
from tests.browser.visitor import Visitor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Served]:
    """A job whose server wants tokens."""
    tokens = {f"rest.{scope}-token": f"file:{folder}/{scope}" for scope in ("operate", "read")}
    with served(lambda: start_orders(fast(folder, **tokens), folder)) as found:
        yield found


def token(folder: Path, scope: str) -> str:
    return (folder / scope).read_text().strip()


def test_without_a_token_the_page_asks_for_one(visit: Callable[..., Visitor], guarded: Served, folder: Path) -> None:
    visitor = visit(guarded)
    visitor.expect_complaint("status of 401")
    tab = visitor.tab()
    field = tab.get_by_label("Token")
    expect(tab.get_by_text("tidemill page")).to_be_visible()
    field.fill("a wrong one")
    field.press("Enter")
    expect(tab.get_by_role("alert")).to_be_visible()
    field.fill(token(folder, "operate"))
    field.press("Enter")
    expect(tab.get_by_role("link", name="orders")).to_be_visible()
    tab.reload()
    expect(tab.get_by_role("link", name="orders")).to_be_visible()


def test_a_token_in_the_address_is_taken_out_of_it(
    visit: Callable[..., Visitor], guarded: Served, folder: Path
) -> None:
    visitor = visit(guarded)
    secret = token(folder, "operate")
    tab = visitor.tab(f"#token={secret}")
    expect(tab.get_by_role("link", name="orders")).to_be_visible()
    assert secret not in tab.url
    assert tab.evaluate("history.length") <= 2, "about:blank, and this page"
    assert not any(secret in url for url in visitor.requests)
    assert tab.evaluate("Object.values(localStorage)") == [], "it does not outlive the tab"


def test_with_a_reading_token_actions_are_disabled_with_a_reason(
    visit: Callable[..., Visitor], guarded: Served, folder: Path
) -> None:
    visitor = visit(guarded)
    visitor.expect_complaint("status of 403")
    tab = visitor.tab(f"#/jobs/{guarded.id}/graph&token={token(folder, 'read')}")
    savepoint = tab.get_by_role("button", name="Savepoint")
    expect(savepoint).to_be_disabled()
    expect(tab.get_by_text("Your token is read-only")).to_be_visible()
    tab.get_by_role("link", name="State").click()
    expect(tab.get_by_role("main")).to_contain_text("rest.operate-token")
