"""Storage in a bucket of an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage.

An upload is all or nothing by itself. ``create`` is a conditional put (``If-None-Match: *`` on S3), which the store
decides: of many writers one wins, and neither locks nor renames are needed. A request that fails on the way is sent
again a few times, so that a ``create`` may meet its own earlier success; who must know compares what is there, as
``ManifestLog`` does.

Credentials come from the environment as the stores' own tools read it (``AWS_ACCESS_KEY_ID`` and so on, or the
machine's role), or from the configuration's ``s3.`` keys. They travel to workers with the job, and are never shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from tidemill.checkpoint.names import check_name
from tidemill.checkpoint.storage_api import (
    AlreadyExistsError,
    Names,
    NotFoundError,
    Storage,
    check_prefix,
    check_range,
)
from tidemill.errors import CheckpointError, ConfigurationError

__all__ = ["OBJECT_STORE_SCHEMES", "ObjectStorage"]

OBJECT_STORE_SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})

T = TypeVar("T")

_TIMEOUT: Final = "30 s"
_RETRIES: Final = "5"
#: Keys below ``s3.``, and the name of each in the library.
_S3_KEYS: Final = {
    "endpoint": "endpoint",
    "region": "region",
    "access-key": "access_key_id",
    "secret-key": "secret_access_key",
    "session-token": "session_token",
}
#: How requests are made: on all stores.
_REQUEST_KEYS: Final = frozenset({"path.style.access", "timeout", "max-retries"})


class ObjectStorage(Storage):
    """Objects below ``uri`` (``s3://bucket/path``). Cheap to make and to pickle; connects when it is used.

    ``options`` are the configuration's ``s3.`` keys without that prefix.
    """

    __slots__ = ("_options", "_pid", "_store", "_uri")

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        self._uri = uri.rstrip("/")
        self._options = dict(options or {})
        unknown = sorted(self._options.keys() - _S3_KEYS.keys() - _REQUEST_KEYS)
        if unknown:
            known = ", ".join(f"s3.{key}" for key in sorted({*_S3_KEYS, *_REQUEST_KEYS}))
            raise ConfigurationError(f"unknown configuration key 's3.{unknown[0]}'; known are {known}")
        self._store: Any = None
        self._pid = 0

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str, dict[str, str]]]:
        return ObjectStorage, (self._uri, self._options)

    def __repr__(self) -> str:
        return f"ObjectStorage({self._uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStorage) and (self._uri, self._options) == (other._uri, other._options)

    def __hash__(self) -> int:
        return hash(self._uri)

    def create(self, name: str, data: bytes) -> None:
        check_name(name)
        try:
            self._call(
                "create", name, lambda store, api: api.put(store, name, data, mode="create", use_multipart=False)
            )
        except AlreadyExistsError:
            raise AlreadyExistsError(f"{self._uri}/{name} exists already") from None

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
            # A store gives what there is of a range, but refuses one that begins behind the end.
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
        for name in names:  # one by one: what refers to others goes before them
            check_name(name)
            try:
                self._call("delete", name, lambda store, api, name=name: api.delete(store, name))
            except NotFoundError:
                continue

    def size(self, name: str) -> int:
        check_name(name)
        return self._call("look up", name, lambda store, api: int(api.head(store, name)["size"]))

    def close(self) -> None:
        self._store = None

    def _call(self, what: str, name: str, call: Callable[..., T]) -> T:
        store, api = self._connected()
        from obstore import exceptions

        where = f"{self._uri}/{name}".rstrip("/")
        try:
            return call(store, api)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise CheckpointError(f"cannot {what} {where}: the bucket does not exist; create it first") from None
            raise NotFoundError(f"{where} does not exist") from None
        except exceptions.AlreadyExistsError:
            raise AlreadyExistsError(f"{where} exists already") from None
        except (PermissionError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise CheckpointError(
                f"cannot {what} {where}: the store refused access. Check the credentials (s3.access-key and "
                "s3.secret-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and the bucket's policy: "
                f"{_line(error)}"
            ) from None
        except exceptions.BaseError as error:
            raise CheckpointError(f"cannot {what} {where}: {_line(error)}") from None

    def _connected(self) -> tuple[Any, Any]:
        if find_spec("obstore") is None:
            raise ConfigurationError(
                f"checkpoint directory {self._uri} is on an object store, for which the package 'obstore' is needed: "
                "pip install 'tidemill[object-store]', on all workers too"
            )
        import obstore

        if self._store is None or self._pid != os.getpid():  # connections do not survive a fork
            self._store = self._connect()
            self._pid = os.getpid()
        return self._store, obstore

    def _connect(self) -> Any:
        from obstore import exceptions
        from obstore.store import from_url

        options = self._options
        settings = {name: options[key] for key, name in _S3_KEYS.items() if key in options}
        if "path.style.access" in options:
            settings["virtual_hosted_style_request"] = str(options["path.style.access"].lower() != "true").lower()
        endpoint = options.get("endpoint", os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")))
        if endpoint and "region" not in options and "AWS_REGION" not in os.environ:
            settings["region"] = "us-east-1"  # stores of one's own have none, but the signature asks for one
        client = {"timeout": options.get("timeout", _TIMEOUT), "allow_http": endpoint.startswith("http://")}
        backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2}
        retry = {"retry_timeout": timedelta(minutes=2), "backoff": backoff}
        try:
            retry["max_retries"] = int(options.get("max-retries", _RETRIES))
            connect: Any = from_url  # its many overloads are for literal settings
            return connect(self._uri, config=settings, client_options=client, retry_config=retry)
        except (exceptions.BaseError, ValueError) as error:
            raise ConfigurationError(f"{self._uri} cannot be used as a checkpoint directory: {_line(error)}") from None


def _line(error: BaseException) -> str:
    """What the library says, without its nested internals; it names the request and the status, never credentials."""
    text = str(error).partition("\n\nDebug source")[0]
    return " ".join(text.split())[:500]
