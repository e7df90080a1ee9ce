"""The documentation as a site (`make docs`): no warnings, every page, and nothing that is loaded from other hosts.

It is built once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tools.docs_docstrings import markdown_of
from tools.docs_site import MODULES, adapted

ROOT = Path(__file__).parents[2]
SECONDS = 300
#: Attributes whose addresses a browser loads by itself. Those of <a> are followed by readers only.
LOADED = {"src", "srcset", "poster", "data"}
ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)


class Addresses(HTMLParser):
    """What a page loads, and the pages that its navigation names."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.navigation: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.loaded.update(given[name] for name in LOADED & given.keys())
        if tag == "link" and given.get("rel") not in {"prev", "next", "canonical"}:
            self.loaded.add(given.get("href", ""))
        if tag == "a" and "md-nav__link" in given.get("class", ""):
            self.navigation.add(given.get("href", "").partition("#")[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_every_page_is_in_the_navigation(site: Path) -> None:
    navigation = Addresses(site / "quick-start.html").navigation
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs")
        built = path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html")
        assert (site / built).exists(), path
        assert built.as_posix() in navigation, path
    assert {f"api/{name}.html" for name in MODULES} <= navigation


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        for address in Addresses(page).loaded:
            assert not ELSEWHERE.match(address), (page, address)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_what_pages_load_exists(site: Path) -> None:
    for page in site.rglob("*.html"):
        for address in Addresses(page).loaded:
            path = address.partition("#")[0].partition("?")[0]
            # A server shows 404.html for any path: its addresses begin at the root.
            file = site / path[1:] if path.startswith("/") else page.parent / path
            assert path.startswith("data:") or file.exists(), (page, address)


def test_pages_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"] if "watermark" in entry["text"].lower()}
    assert {"tutorial.html", "time-and-watermarks.html", "api/tidemill.common.html"} <= found
    assert not {location for location in found if location.startswith("source/")}


def test_the_reference_has_signatures_and_examples(site: Path) -> None:
    page = (site / "api" / "tidemill.datastream.html").read_text(encoding="utf-8")
    assert 'id="tidemill.datastream.KeyedStream.reduce"' in page
    assert "Combine the records of a key." in page
    assert ":class:" not in page


def test_both_modes_are_offered(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r'data-md-color-scheme="(\w+)"', page)) >= {"default", "slate"}


def test_a_page_of_github_is_adapted() -> None:
    page = """[state](state-ttl.md#costs), [why](decisions/), [a program](../examples/word_count.py)

```python run
print("[kept](../README.md)")
```

```output
[kept](../README.md)
```

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="images/dark.png">
  <img alt="A graph" src="images/light.png">
</picture>
"""
    expected = """[state](state-ttl.md#costs), [why](decisions/README.md), [a program](source/examples/word_count.py.md)

```python
print("[kept](../README.md)")
```

```text title="Output"
[kept](../README.md)
```

![A graph](images/light.png#only-light)
![A graph](images/dark.png#only-dark)
"""
    assert adapted(page, "docs/page.md") == expected


def test_a_docstring_is_markdown() -> None:
    docstring = "Like :meth:`~a.B.c`.\n\n>>> 1 + 1\n2\n\nStart with ``b.py``.\n\nIn a file::\n\n    text"
    expected = "Like `a.B.c`.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nIn a file:\n\n    text"
    assert markdown_of(docstring) == expected
