"""Information about the server, and errors of requests."""

from __future__ import annotations

from typing_extensions import TypedDict

Features = TypedDict("Features", {"web-submit": bool, "web-cancel": bool, "web-rescale": bool, "web-history": bool})
ServerConfig = TypedDict(
    "ServerConfig",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "tidemill-version": str,
        "may-operate": bool,
        "features": Features,
    },
)
Overview = TypedDict(
    "Overview",
    {
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "tidemill-version": str,
    },
)


class Errors(TypedDict):
    """Why a request failed."""

    errors: list[str]
