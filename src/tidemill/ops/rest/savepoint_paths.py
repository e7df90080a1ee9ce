"""Where clients may write and delete savepoints: below the directories in the configuration of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, RestOptions
from tidemill.connectors.object_store import OBJECT_STORE_SCHEMES
from tidemill.ops.rest.errors import BadRequestError, ForbiddenError

__all__ = ["checked_path", "roots_of"]

_LONGEST: Final = 1024
#: Characters that are known to break path checks, and that savepoint directories do not need: escapes, backslashes,
#: control characters.
_STRANGE: Final = re.compile(r"[\x00-\x1f\x7f\\%?#*]")


def roots_of(configuration: Configuration) -> list[str]:
    """Return the directories below which clients may write savepoints."""
    default = configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)
    return [*([] if default is None else [default]), *(configuration.get(RestOptions.SAVEPOINT_DIRECTORIES) or ())]


def checked_path(path: str, roots: Iterable[str], field: str = "target-directory") -> str:
    """Resolve the path of a client to one without links and ``..``. Errors name the ``field`` of the request.

    Raises :class:`BadRequestError` if it is not an absolute path or URI, and :class:`ForbiddenError` if it is not below
    any of the roots.
    """
    if len(path) > _LONGEST or _STRANGE.search(path) or path.startswith("//"):
        raise BadRequestError(f"{field} must be an absolute path or a URI, without escapes and control characters")
    scheme = _scheme(path)
    if scheme in OBJECT_STORE_SCHEMES:
        found: str | None = _object_path(path)
    elif scheme in ("", "file"):
        found = _local_path(path)
    else:
        raise BadRequestError(f"{field} has the scheme {scheme!r}, which is not supported")
    if found is None:
        raise BadRequestError(f"{field} must be an absolute path or a URI, without '.' and '..'")
    for root in roots:
        rooted = _rooted(root)
        if rooted is not None and (found == rooted or found.startswith(f"{rooted.rstrip('/')}/")):
            return found
    raise ForbiddenError(
        f"{field} must be below {CheckpointingOptions.SAVEPOINT_DIRECTORY.key} or one of "
        f"{RestOptions.SAVEPOINT_DIRECTORIES.key}"
    )


def _rooted(root: str) -> str | None:
    """Resolve a directory of the configuration, which may be relative."""
    scheme = _scheme(root)
    if scheme in OBJECT_STORE_SCHEMES:
        return _object_path(root)
    return _local_path(root if scheme else os.path.realpath(root))


def _scheme(path: str) -> str:
    scheme, separator, _ = path.partition(":")
    return scheme.lower() if separator and "/" not in scheme else ""


def _local_path(path: str) -> str | None:
    """Return an absolute path with its links resolved, or None if the path is not absolute."""
    if _scheme(path) == "file":
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            return None
        path = unquote(parts.path)
    if not path.startswith("/") or path.startswith("//"):
        return None
    return os.path.realpath(path)


def _object_path(path: str) -> str | None:
    """Return the normalized URI of an object store, or None if its path has an invalid part."""
    parts = urlsplit(path)
    names = parts.path.strip("/").split("/")
    if not parts.netloc or any(name in (".", "..") or (not name and len(names) > 1) for name in names):
        return None
    return f"{parts.scheme.lower()}://{parts.netloc}/{'/'.join(names)}".rstrip("/")
