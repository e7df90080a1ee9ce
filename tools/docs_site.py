"""Hooks of MkDocs that make a site of pages written for GitHub: `make docs`.

- Links out of docs/ lead to copies of the files: the site refers to no other host.
- Fences have GitHub's names of languages, pictures follow the mode that the reader selects.
- Decisions, and the API reference with one page for each public module, are added to the navigation.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
LINK: Final = re.compile(r"\]\((?!https?:|mailto:)(?P<path>[^)#\s]+)(?P<heading>#[^)]*)?\)")
PICTURE: Final = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]*)" src="(?P<light>[^"]+)">\s*</picture>'
)
FENCE: Final = re.compile(r"^(?P<fence>`{3,})(?P<info>[^`]*)$")
#: Pages of the site that are not in docs/.
PAGES: Final = {"README.md": "overview.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
#: Not for the search, and without an edit link.
SOURCE_PAGE: Final = "---\nsearch:\n  exclude: true\n---\n"

#: The modules of the API reference. A name that several export is on the page of the first.
MODULES: Final = (
    "tidemill.common",
    "tidemill.datastream.functions",
    "tidemill.datastream.state",
    "tidemill.datastream.window",
    "tidemill.datastream",
    "tidemill.datastream.connectors.base",
    "tidemill.datastream.connectors.file_system",
    "tidemill.datastream.connectors.kafka",
    "tidemill.datastream.connectors.jdbc",
    "tidemill.datastream.connectors.spark",
    "tidemill.datastream.connectors.elasticsearch",
    "tidemill.datastream.connectors.rabbitmq",
    "tidemill.datastream.connectors.kinesis",
    "tidemill.datastream.connectors.pulsar",
    "tidemill.datastream.connectors.cassandra",
    "tidemill.datastream.connectors.datagen",
    "tidemill.datastream.connectors.number_seq",
    "tidemill.datastream.connectors.hybrid_source",
    "tidemill.datastream.formats.avro",
    "tidemill.datastream.formats.csv",
    "tidemill.datastream.formats.json",
    "tidemill.datastream.formats.orc",
    "tidemill.datastream.formats.parquet",
    "tidemill.connectors.sources",
    "tidemill.connectors.sinks",
    "tidemill.connectors.idempotent_sink",
    "tidemill.connectors.write_ahead_log",
    "tidemill.connectors.two_phase_commit",
    "tidemill.metrics",
    "tidemill.state_processor",
    "tidemill.testing",
    "tidemill.testing.sink_contract",
    "tidemill.testing.source_contract",
    "tidemill.ops.queryable",
    "tidemill.errors",
)


# --- what MkDocs calls


def on_config(config: MkDocsConfig) -> None:
    """Fill the parts of the navigation that are lists of files."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    for section in config.nav or ():
        for entries in section.values():
            if "decisions/README.md" in entries:
                entries += [f"decisions/{name}" for name in decisions]
            for entry in entries if isinstance(entries, list) else []:
                if isinstance(entry, dict) and "Python API" in entry:
                    entry["Python API"] = [{name.partition(".")[2]: f"api/{name}.md"} for name in sorted(MODULES)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the API reference, and what pages link to outside of docs/."""
    for name, members in public_names().items():
        files.append(File.generated(config, f"api/{name}.md", content=api_page(name, members)))
    for name, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / name).read_text(encoding="utf-8")))
    sources = linked_sources()
    for path in sorted(sources):
        content = SOURCE_PAGE + source_page(path, sources)
        page = File.generated(config, source_uri(path), content=content, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Adapt a page that is in the repository; generated ones are as they should be."""
    uri = page.file.src_uri
    names = {target: name for name, target in PAGES.items()}
    if uri.startswith(("api/", "source/")):
        return markdown
    return adapted(markdown, names.get(uri, f"docs/{uri}"))


# --- pages of the repository


def adapted(markdown: str, path: str) -> str:
    """The page at a path of the repository, for the site."""
    return "".join(_adapted_parts(markdown, path))


def _adapted_parts(markdown: str, path: str) -> Iterator[str]:
    fence = ""
    text: list[str] = []  # lines since the last block of code
    for line in markdown.splitlines(keepends=True):
        found = FENCE.match(line.rstrip("\n"))
        if found and not fence:
            yield _adapted_text("".join(text), path)
            text = []
            fence = found["fence"]
            yield f"{fence}{_language(found['info'].strip())}\n"
        elif fence:
            yield line
            if found and not found["info"].strip() and len(found["fence"]) >= len(fence):
                fence = ""
        else:
            text.append(line)
    yield _adapted_text("".join(text), path)


def _language(info: str) -> str:
    """The first word is the language; the others are for the tests."""
    return 'text title="Output"' if info == "output" else info.partition(" ")[0]


def _adapted_text(text: str, path: str) -> str:
    here = posixpath.dirname(page_uri(path))

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["path"]))
        return f"]({posixpath.relpath(page_uri(target), here or '.')}{found['heading'] or ''})"

    text = PICTURE.sub(r"![\g<alt>](\g<light>#only-light)\n![\g<alt>](\g<dark>#only-dark)", text)
    return LINK.sub(link, text)


def page_uri(path: str) -> str:
    """Where the site has a file or folder of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        return f"{inside}/README.md" if (ROOT / path).is_dir() else inside
    return source_uri(path)


# --- source files that pages link to


def linked_sources() -> set[str]:
    """Paths of files and folders outside of docs/ to which pages link, and all examples."""
    pages = [*PAGES, *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
    linked = set(files_in("examples"))
    for page in pages:
        for found in LINK.finditer((ROOT / page).read_text(encoding="utf-8")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), found["path"]))
            if (ROOT / target).exists() and page_uri(target) == source_uri(target):
                linked.add(target)
    return linked


def files_in(folder: str) -> list[str]:
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def source_uri(path: str) -> str:
    return f"source/{path}.md"


def source_page(path: str, linked: set[str]) -> str:
    """A file as a block of code, or a folder as a list."""
    if (ROOT / path).is_dir():
        here = posixpath.dirname(source_uri(path))
        names = files_in(path)
        rows = (
            f"- [{name}]({posixpath.relpath(source_uri(name), here)})\n" if name in linked else f"- {name}\n"
            for name in names
        )
        return f"# {path}\n\n{''.join(rows)}"
    language = {".py": "python", ".sh": "sh", ".yaml": "yaml", ".json": "json"}.get(Path(path).suffix, "text")
    return f"# {path}\n\n~~~~~~{language}\n{(ROOT / path).read_text(encoding='utf-8')}\n~~~~~~\n"


# --- the API reference


def public_names() -> dict[str, list[str]]:
    """The names that each module exports, without those of modules before it."""
    seen: set[int] = set()
    names: dict[str, list[str]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        defined = [member for member, value in vars(module).items() if getattr(value, "__module__", None) == name]
        listed = getattr(module, "__all__", [member for member in defined if not member.startswith("_")])
        exported = {member: getattr(module, member) for member in listed}
        names[name] = sorted(member for member, value in exported.items() if id(value) not in seen)
        seen.update(map(id, exported.values()))
    return names


def api_page(name: str, members: list[str]) -> str:
    listed = "".join(f"        - {member}\n" for member in members)
    return f"# {name}\n\n::: {name}\n    options:\n      members:\n{listed}"
