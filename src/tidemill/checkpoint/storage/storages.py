"""The available storages, and which one a checkpoint directory selects. The interface is in ``storage.api``."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from tidemill.checkpoint.names import check_name
from tidemill.checkpoint.storage.api import (
    AlreadyExistsError,
    Names,
    NotFoundError,
    Storage,
    check_prefix,
    check_range,
)
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.connectors.object_store import OBJECT_STORE_SCHEMES, store_options
from tidemill.errors import CheckpointError, ConfigurationError

__all__ = [
    "AlreadyExistsError",
    "LocalStorage",
    "MemoryStorage",
    "NotFoundError",
    "ObjectStorage",
    "Storage",
    "storage_for",
    "store_options",
]


class MemoryStorage(Storage):
    """Storage in this process, for tests and for jobs that need not survive it. Cannot be sent to another process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, bytes] = {}

    def create(self, name: str, data: bytes) -> None:
        check_name(name)
        with self._lock:
            if name in self._files:
                raise AlreadyExistsError(f"{name} exists already")
            self._files[name] = bytes(data)

    def write(self, name: str, data: bytes) -> None:
        check_name(name)
        with self._lock:
            self._files[name] = bytes(data)

    def read(self, name: str) -> bytes:
        check_name(name)
        with self._lock:
            data = self._files.get(name)
        if data is None:
            raise NotFoundError(f"{name} does not exist")
        return data

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        check_range(name, offset, length)
        return self.read(name)[offset : offset + length]

    def exists(self, name: str) -> bool:
        check_name(name)
        with self._lock:
            return name in self._files

    def list(self, prefix: str = "") -> Names:
        check_prefix(prefix)
        with self._lock:
            return sorted(name for name in self._files if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            check_name(name)
            with self._lock:
                self._files.pop(name, None)

    def size(self, name: str) -> int:
        return len(self.read(name))

    def __reduce__(self) -> NoReturn:
        raise CheckpointError(
            "in-memory checkpoint storage cannot be sent to workers; configure a checkpoint directory for this job"
        )


def storage_for(uri: str, *, durable: bool = True, options: Mapping[str, str] | None = None) -> Storage:
    """The storage for a checkpoint directory.

    ``uri`` is a path, ``file:/path``, ``file:///path``, or an object store URI such as ``s3://bucket/path``.
    ``options`` are those of :class:`~tidemill.connectors.object_store.ObjectStore`. ``durable=False`` disables fsync:
    faster, but a power failure (not a process crash) may lose committed epochs.
    Raises :class:`ConfigurationError` for a scheme that is not supported. Does no I/O.
    """
    if not uri or "\0" in uri:
        raise ConfigurationError(f"{uri!r} is not a checkpoint directory")
    scheme, separator, _ = uri.partition(":")
    if not separator or "/" in scheme:
        return LocalStorage(uri, durable=durable)
    if scheme.lower() in OBJECT_STORE_SCHEMES:
        return ObjectStorage(uri, options)
    if scheme.lower() != "file":
        raise ConfigurationError(
            f"checkpoint directory {uri!r} has the scheme {scheme!r}; supported are plain paths, file:// URIs, and "
            f"object stores: {', '.join(f'{one}://' for one in sorted(OBJECT_STORE_SCHEMES))}"
        )
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise ConfigurationError(f"checkpoint directory {uri!r} must have the form file:///absolute/path")
    path = unquote(parts.path)
    if "\0" in path:
        raise ConfigurationError(f"{uri!r} is not a checkpoint directory")
    return LocalStorage(path, durable=durable)
