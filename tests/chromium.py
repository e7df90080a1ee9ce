"""Chromium without a window, for the tests and the pictures of the web page: the system's own, nothing is fetched."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

_INSTALL = Path(__file__).parents[1] / "tools" / "install_chromium.sh"
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers have little of it
    "--force-color-profile=srgb",
    # Whatever it may want to ask by itself, nothing leaves this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


@cache
def find_chromium() -> str:
    """The program; installs it if it is missing, where that may be done."""
    done = subprocess.run([str(_INSTALL)], capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip())
    return done.stdout.strip()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with no past, in processes of its own that are gone afterwards.

    Until then the thread counts as one in which an event loop runs: nothing else in it can use asyncio.
    """
    with sync_playwright() as playwright:
        # Its sandbox is not for root, nor for most containers; it sees no page but ours.
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=_ARGUMENTS, chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()
