"""The files of the web page: who gets them, and that a browser under our policy can use them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.ops.rest.serving import Client, options, serving
from tidemill.ops.web.pages import page_files

FILES = page_files()
SCRIPTS = {path: file.content.decode() for path, file in FILES.items() if path.endswith(".js")}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client without the token that its server wants."""
    folder = tmp_path_factory.mktemp("page")
    with serving(options(folder, rest_operate__token=f"file:{folder}/token")) as (client, _):
        yield client


def test_the_page_is_had_without_a_token_and_what_it_shows_is_not(client: Client) -> None:
    for path, file in FILES.items():
        answer = client.get(path)
        assert (answer.status, answer.headers["content-type"]) == (200, file.media_type), path
        assert answer.text == file.content.decode()
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/jobs").status == 401


def test_the_guard_also_protects_the_page(client: Client) -> None:
    assert client.get("/", Host="evil.example.org").status == 403
    assert client.get("/", Origin="https://evil.example.org").status == 403
    assert client.ask("POST", "/").status == 401
    assert "default-src 'none'" in client.get("/").headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/web",
        "/web/",
        "/web/index.html",
        "/web/none.js",
        "/web/../pages.py",
        "/web/%2e%2e/pages.py",
        "/web/views",
        "//",
    ],
)
def test_nothing_but_the_files_of_the_page_is_had(client: Client, path: str) -> None:
    assert client.get(path).status == 401, "as every other path"


def test_a_browser_asks_whether_its_copy_is_right(client: Client) -> None:
    answer = client.get("/web/main.js")
    assert answer.headers["cache-control"] == "no-cache", "and only this one header says so"
    same = client.get("/web/main.js", **{"If-None-Match": answer.headers["etag"]})
    assert (same.status, same.text, same.headers["etag"]) == (304, "", answer.headers["etag"])
    assert client.get("/web/main.js", **{"If-None-Match": '"of-another-version"'}).status == 200
    assert client.ask("HEAD", "/web/main.js").status == 200
    assert len({file.etag for file in FILES.values()}) == len({file.content for file in FILES.values()})


def test_the_page_works_under_its_own_policy() -> None:
    html = FILES["/"].content.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=", html), "nothing is in line"
    assert all(tag.endswith("></script>") for tag in re.findall(r"<script.*?</script>", html, re.DOTALL))
    linked = {"/" + place for place in re.findall(r'(?:src|href)="(web/[^"]*)"', html)}
    assert {"/web/main.js", "/web/style.css"} < linked <= {*FILES}
    assert not re.search(r'(?:src|href|fetch\()[="`]+/', html + "".join(SCRIPTS.values())), "it may be below a path"
    for path, text in SCRIPTS.items():
        told = re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.cssText", text
        )
        assert told is None, f"{path} makes elements of text: {told}"
        # An element's namespace is a name, not an address.
        elsewhere = re.sub(r"http://www\.w3\.org/2000/svg", "", text)
        assert "://" not in elsewhere, f"{path} names another place"


def test_scripts_import_what_is_there() -> None:
    found = {}
    for path, text in SCRIPTS.items():
        for name in re.findall(r'^(?:import|\}).* from "([^"]+)";$', text, re.MULTILINE):
            found[path, name] = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    assert len(found) > 20
    assert {place for place in found.values() if place not in FILES} == set()


def test_every_script_is_type_checked() -> None:
    """``make lint`` runs the checker; nothing is exempt from it."""
    for path, text in SCRIPTS.items():
        assert text.startswith("// @ts-check\n"), path
        assert not re.search(r"@ts-(?:ignore|nocheck|expect-error)", text), path


def test_imports_between_folders_go_one_way() -> None:
    order = ["core", "widgets", "graph", "actions", "views", ""]
    places = {path: path.removeprefix("/web/").rpartition("/")[0] for path in SCRIPTS}
    assert set(places.values()) == set(order)
    for path, text in SCRIPTS.items():
        for name in re.findall(r'(?:from |import\()"(\.[^"]+)"', text):
            needed = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            assert order.index(places[needed]) <= order.index(places[path]), f"{path} imports {needed}"


def test_all_files_are_shipped() -> None:
    """Those of the table, which are all there are: one of another kind would be left out silently."""
    folder = Path(__file__).parents[4] / "src" / "tidemill" / "ops" / "web" / "static"
    there = {"/web/" + file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert there - {"/web/index.html"} == {*FILES} - {"/"}
    assert '"ops/web/static/**/*"' in (folder.parents[4] / "pyproject.toml").read_text()
