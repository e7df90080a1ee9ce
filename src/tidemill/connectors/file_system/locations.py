"""Resolves the path of a file sink to a part store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidemill.connectors.file_system.local_parts import LocalParts
from tidemill.connectors.file_system.object_parts import ObjectParts
from tidemill.connectors.file_system.part_store import PartStore
from tidemill.connectors.object_store import OBJECT_STORE_SCHEMES
from tidemill.errors import GraphError

__all__ = ["local_path", "part_store_at", "sink_path"]


def sink_path(given: str | Path) -> str:
    """Normalize a file sink's path: the URI of an object store, or a path normalized by :func:`local_path`.

    >>> sink_path("s3://bucket/out/")
    's3://bucket/out'
    """
    path = str(given)
    scheme, _, rest = path.partition("://")
    if scheme.lower() in OBJECT_STORE_SCHEMES and rest.strip("/"):
        return f"{scheme.lower()}://{rest}".rstrip("/")
    return local_path(given)


def local_path(given: str | Path) -> str:
    """Convert a path or ``file:`` URI to an absolute path, so that driver and workers use the same directory."""
    path = str(given)
    parts = urlsplit(path)
    if parts.scheme == "file":
        return str(Path(unquote(parts.path)).absolute())
    if len(parts.scheme) > 1:  # a single letter is a drive
        stores = ", ".join(f"{one}://" for one in sorted(OBJECT_STORE_SCHEMES))
        raise GraphError(
            f"{path!r} is not a local or mounted directory. FileSink also writes to object stores ({stores}); mount "
            "any other storage, or write through Spark: SparkSink."
        )
    return str(Path(path).absolute())


def part_store_at(base_path: str, options: Mapping[str, str]) -> PartStore:
    """Return the part store for a path returned by :func:`sink_path`; ``options`` are those of object stores."""
    return ObjectParts(base_path, options) if "://" in base_path else LocalParts(base_path)
