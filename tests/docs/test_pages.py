"""The pages hang together: links lead somewhere, the index names every page, tables of options tell the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemill.common import Configuration
from tidemill.config import RocksDBOptions
from tidemill.config.accepted import ACCEPTED
from tidemill.config.option import ConfigOption
from tidemill.state.rocksdb.settings import RocksDBSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
ROCKSDB = {known.key: known for known in vars(RocksDBOptions).values() if isinstance(known, ConfigOption)}
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#]*)(?:#(?P<heading>[^)]*))?\)")
PICTURE = re.compile(r'(?:\]\(|src="|srcset=")(?P<path>[^")]*\.(?:png|svg))[")]')
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """A page without its code."""
    return CODE.sub("", page.read_text(encoding="utf-8"))


def headings_of(page: Path) -> set[str]:
    """The names under which the headings of a page can be linked to."""
    titles = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def tables_of(page: Path, heading: str) -> list[list[list[str]]]:
    """The tables below a heading, as rows of cells."""
    section = text_of(page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\|$\n?)+", section, re.MULTILINE)
    return [[[cell.strip() for cell in row[1:-1].split("|")] for row in table.splitlines()] for table in tables]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(text_of(page)):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        assert target.exists(), link[0]
        if link["heading"]:
            assert link["heading"] in headings_of(target), link[0]


def test_every_picture_is_there_and_used_and_quickly_loaded() -> None:
    used = {(page.parent / found["path"]).resolve() for page in PAGES for found in PICTURE.finditer(text_of(page))}
    assert used == set((DOCS / "images").iterdir())
    assert max(picture.stat().st_size for picture in used) <= 200_000


def test_the_index_names_every_page() -> None:
    named = {(DOCS / link["path"]).resolve() for link in LINK.finditer(text_of(DOCS / "README.md"))}
    assert set(DOCS.glob("*.md")) - {DOCS / "README.md"} <= named


def test_every_option_of_rocksdb_is_documented_with_its_default() -> None:
    rows = tables_of(DOCS / "state-backends.md", "RocksDB's options")[0][2:]
    told = {key.strip("`* "): default for key, default, _ in rows}
    assert list(told) == list(ROCKSDB)
    for key, default in told.items():
        assert ROCKSDB[key].default == (None if default == "not set" else ROCKSDB[key].parse(default)), key


def test_the_predefined_options_of_rocksdb_are_as_documented() -> None:
    (_, *names), _, *rows = tables_of(DOCS / "state-backends.md", "RocksDB's options")[1]
    for number, name in enumerate(names, start=1):
        by_name = Configuration().set_string("state.backend.rocksdb.predefined-options", name)
        one_by_one = Configuration()
        for row in rows:
            if row[number]:
                one_by_one.set_string("state.backend.rocksdb." + row[0].strip("`"), row[number])
        assert RocksDBSettings.of(by_name) == RocksDBSettings.of(one_by_one), name


def test_options_of_rocksdb_that_change_nothing_are_documented_too() -> None:
    page = text_of(DOCS / "state-backends.md")
    prefix = "state.backend.rocksdb."
    names = {known.key.removeprefix(prefix) for known in ACCEPTED if known.key.startswith(prefix)}
    assert {name for name in names if f"`{name}`" not in page and not name.startswith("log.")} == set()


def test_the_memory_that_stores_share_is_as_documented() -> None:
    assert f"| {RocksDBSettings().memory >> 20} MB in all |" in text_of(DOCS / "state-backends.md")
