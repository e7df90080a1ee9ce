"""Storage in a bucket of an object store.

An upload is atomic by itself. ``create`` is a conditional put (``If-None-Match: *`` on S3), which the store decides:
one of several writers wins, and neither locks nor renames are needed. A request that fails in transit is retried a few
times, so a ``create`` may encounter its own earlier success. Callers for which that matters compare the stored data, as
``ManifestLog`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tidemill.checkpoint.names import check_name
from tidemill.checkpoint.storage.api import (
    AlreadyExistsError,
    Names,
    NotFoundError,
    Storage,
    check_prefix,
    check_range,
)
from tidemill.connectors.object_store import ObjectStore
from tidemill.errors import CheckpointError

__all__ = ["ObjectStorage"]

T = TypeVar("T")


class ObjectStorage(Storage):
    """Objects below ``uri`` (``s3://bucket/path``). Cheap to create and to pickle; connects when it is used.

    ``options`` are those of :class:`~tidemill.connectors.object_store.ObjectStore`.
    """

    __slots__ = ("_store",)

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        self._store = ObjectStore(uri, options, purpose="checkpoint directory", failure=CheckpointError)

    def __repr__(self) -> str:
        return f"ObjectStorage({self._store.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStorage) and self._store == other._store

    def __hash__(self) -> int:
        return hash(self._store)

    def create(self, name: str, data: bytes) -> None:
        check_name(name)
        self._call("create", name, lambda store, api: api.put(store, name, data, mode="create", use_multipart=False))

    def write(self, name: str, data: bytes) -> None:
        check_name(name)
        self._call("write", name, lambda store, api: api.put(store, name, data))

    def read(self, name: str) -> bytes:
        check_name(name)
        return self._call("read", name, lambda store, api: bytes(api.get(store, name).bytes()))

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        check_name(name)
        check_range(name, offset, length)
        if not length:
            self.size(name)
            return b""
        end = offset + length
        try:
            return self._call("read", name, lambda store, api: bytes(api.get_range(store, name, start=offset, end=end)))
        except NotFoundError:
            raise
        except CheckpointError:
            # A store returns the existing part of a range, but rejects a range that begins after the end.
            if offset < self.size(name):
                raise
            return b""

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except NotFoundError:
            return False
        return True

    def list(self, prefix: str = "") -> Names:
        check_prefix(prefix)
        folder = prefix.rpartition("/")[0]

        def names(store: Any, api: Any) -> Names:
            return [entry["path"] for batch in api.list(store, folder or None) for entry in batch]

        return sorted(name for name in self._call("list", folder, names) if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:  # one at a time: referrers are deleted before what they refer to
            check_name(name)
            try:
                self._call("delete", name, lambda store, api, name=name: api.delete(store, name))
            except NotFoundError:
                continue

    def size(self, name: str) -> int:
        check_name(name)
        return self._call("look up", name, lambda store, api: int(api.head(store, name)["size"]))

    def close(self) -> None:
        self._store.close()

    def _call(self, what: str, name: str, request: Callable[..., T]) -> T:
        try:
            return self._store.call(what, name, request)
        except FileNotFoundError as error:
            raise NotFoundError(str(error)) from None
        except FileExistsError as error:
            raise AlreadyExistsError(str(error)) from None
