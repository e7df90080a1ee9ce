"""A visitor of the page: a browser with nothing remembered, and a record of what it requested and complained about."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, WebError

from tests.browser.jobs import Served

#: In ms. A figure of the page is at most some seconds behind; the rest is for machines with more to do.
PATIENCE = 60_000
#: The page's own complaints, beside those that the browser writes itself.
_TELL_OF_POLICY = """
addEventListener("securitypolicyviolation", event =>
    console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`), true);
"""


class Visitor:
    """Has tabs on one server, and one that is used again and again: to load the page costs more than to look at it."""

    def __init__(self, browser: Browser, served: Served, **options: Any) -> None:
        self.served = served
        self._context = browser.new_context(**{"reduced_motion": "reduce", **options})
        self._context.set_default_timeout(PATIENCE)
        self._context.add_init_script(_TELL_OF_POLICY)
        self._context.on("request", self._asked)
        self._context.on("console", self._said)
        self._context.on("weberror", self._raised)
        self._first: Page | None = None
        self._expected: list[str] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def tab(self, place: str = "#/") -> Page:
        """A new tab, at a place of the page."""
        page = self._context.new_page()
        page.goto(f"{self.served.server.url}/{place}")
        return page

    def go(self, place: str = "#/") -> Page:
        """The tab that is used again, at a place of the page, come there from the list of jobs."""
        if self._first is None:
            self._first = self.tab(place)
        else:
            self._first.evaluate("document.querySelectorAll('dialog').forEach(dialog => dialog.close())")
            for one in ("#/", place):
                self._first.goto(f"{self.served.server.url}/{one}")
        return self._first

    def look(self, view: str = "graph", served: Served | None = None) -> Page:
        """The same, at a view of the job, or of another one on the same server."""
        return self.go(f"#/jobs/{(served or self.served).id}/{view}")

    def expect_complaint(self, pattern: str) -> None:
        """Something that belongs to the story of a test, such as an answer that refuses."""
        self._expected.append(pattern)

    def check(self) -> None:
        """Nobody else was asked, and nothing was wrong, since the last time."""
        own = urlsplit(self.served.server.url).netloc
        elsewhere = [url for url in self.requests if urlsplit(url).netloc != own and not url.startswith("data:")]
        complaints = [one for one in self.complaints if not any(re.search(known, one) for known in self._expected)]
        for noted in (self.requests, self.complaints, self._expected):
            noted.clear()
        assert not elsewhere, elsewhere
        assert not complaints, complaints

    def leave(self) -> None:
        """Close all tabs."""
        self._context.close()

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def _raised(self, error: WebError) -> None:
        self.complaints.append(f"{error.error.name}: {error.error.message}\n{error.error.stack}")
