"""Serves the files of the web page. They contain no data of jobs, so no token is required.

Files are read once, when the server starts. No path can access any other file. A browser checks each time whether its
copy is still valid (``no-cache`` with an ``ETag``), so that upgrades are effective immediately.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

if TYPE_CHECKING:
    from importlib.abc import Traversable  # in importlib.resources.abc since Python 3.11

__all__ = ["PageFile", "page_files", "router_of"]

_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """A file of the page as it is served."""

    content: bytes
    media_type: str
    #: Identifies the content: it changes with the content.
    etag: str


def page_files() -> dict[str, PageFile]:
    """Return all files by path: ``/`` is the page itself, all other files are below ``/web/``."""
    found = _below(files("tidemill.ops.web") / "static", "/web/")
    return {"/": found.pop("/web/index.html"), **found}


def router_of(table: Mapping[str, PageFile]) -> APIRouter:
    """Create a router that serves exactly these paths."""
    router = APIRouter()
    for path, file in table.items():
        router.add_route(path, _answer_with(file), methods=["GET", "HEAD"])
    return router


def _answer_with(file: PageFile) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)

    return answer


def _below(folder: Traversable, prefix: str) -> dict[str, PageFile]:
    found: dict[str, PageFile] = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            found.update(_below(entry, f"{prefix}{entry.name}/"))
        elif suffix in _MEDIA_TYPES:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[prefix + entry.name] = PageFile(content, _MEDIA_TYPES[suffix], etag)
    return found
