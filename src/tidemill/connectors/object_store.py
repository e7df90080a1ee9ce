"""The client for object stores: S3 and compatible stores, Google Cloud Storage, Azure Blob Storage.

Credentials are read from the environment in the same way as the stores' own tools do (``AWS_ACCESS_KEY_ID`` and so on,
or the machine's role), or from the configuration's ``s3.`` keys. They are sent to workers with the job, and are never
displayed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from tidemill.common.configuration import Configuration
from tidemill.errors import ConfigurationError, TidemillError

__all__ = ["OBJECT_STORE_SCHEMES", "ObjectStore", "store_options"]

OBJECT_STORE_SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})

T = TypeVar("T")

_TIMEOUT: Final = "30 s"
_RETRIES: Final = "5"
#: The prefix of object store keys in a configuration.
_PREFIX: Final = "s3."
#: Keys below ``s3.``, and their names in the library.
_S3_KEYS: Final = {
    "endpoint": "endpoint",
    "region": "region",
    "access-key": "access_key_id",
    "secret-key": "secret_access_key",
    "session-token": "session_token",
}
#: Keys that control requests, for all stores.
_REQUEST_KEYS: Final = frozenset({"path.style.access", "timeout", "max-retries"})

#: Texts in error responses for a bucket that does not exist, and for denied access.
_NO_BUCKET: Final = "NoSuchBucket"
_REFUSED: Final = re.compile(r"status code: 40[13]\b")
_ENDS_A_PATH: Final = re.compile(r"[#?]")


def store_options(configuration: Configuration) -> dict[str, str]:
    """Return the object store options of a configuration: its ``s3.`` keys, without that prefix."""
    return {
        key.removeprefix(_PREFIX): str(value)
        for key, value in configuration.to_dict().items()
        if key.startswith(_PREFIX)
    }


class ObjectStore:
    """Sends requests for objects below ``uri`` (``s3://bucket/path``).

    It is cheap to create and to pickle, and connects on first use. ``options`` are those of :func:`store_options`.
    ``purpose`` describes in messages what the job uses the URI for. ``failure`` is the exception that is raised for
    requests that the store rejects or that fail. Raises :class:`ConfigurationError` for unknown options, and for a URI
    that contains ``#`` or ``?``.
    """

    __slots__ = ("_failure", "_options", "_pid", "_purpose", "_store", "uri")

    def __init__(
        self, uri: str, options: Mapping[str, str] | None, *, purpose: str, failure: type[TidemillError]
    ) -> None:
        self.uri = uri.rstrip("/")
        ending = _ENDS_A_PATH.search(uri)
        if ending is not None:  # the library ignores the rest, so objects would be written to another path
            raise ConfigurationError(
                f"{self.uri} cannot be used as a {purpose}: {ending[0]!r} ends the path of a URI; write %23 for # and "
                "%3F for ?"
            )
        self._options = dict(options or {})
        self._purpose = purpose
        self._failure = failure
        unknown = sorted(self._options.keys() - _S3_KEYS.keys() - _REQUEST_KEYS)
        if unknown:
            known = ", ".join(f"{_PREFIX}{key}" for key in sorted({*_S3_KEYS, *_REQUEST_KEYS}))
            raise ConfigurationError(f"unknown configuration key '{_PREFIX}{unknown[0]}'; known are {known}")
        self._store: Any = None
        self._pid = 0

    def __getstate__(self) -> tuple[str, dict[str, str], str, type[TidemillError]]:
        return self.uri, self._options, self._purpose, self._failure

    def __setstate__(self, state: tuple[str, dict[str, str], str, type[TidemillError]]) -> None:
        self.uri, self._options, self._purpose, self._failure = state
        self._store, self._pid = None, 0

    def __repr__(self) -> str:
        return f"ObjectStore({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(self.uri)

    def close(self) -> None:
        """Release the connections; the next request opens new ones."""
        self._store = None

    def call(self, what: str, name: str, request: Callable[..., T]) -> T:
        """Make a request.

        ``request`` is called with the store and the library. ``what`` and ``name`` specify the operation and the
        object, for messages. Raises FileNotFoundError and FileExistsError, with the object's URI, if the store reports
        them. For any other error it raises this client's ``failure``, with a message that names the object and contains
        no credentials.
        """
        store, api = self._connected()
        from obstore import exceptions

        where = f"{self.uri}/{name}".rstrip("/")
        try:
            return request(store, api)
        except FileNotFoundError as error:
            # A write does not require an existing object: this is the response to the cleanup of a failed large upload.
            if _NO_BUCKET in str(error) or what == "write":
                raise self._failed(what, where, error) from None
            raise FileNotFoundError(f"{where} does not exist") from None
        except exceptions.AlreadyExistsError:
            raise FileExistsError(f"{where} exists already") from None
        except (PermissionError, exceptions.BaseError) as error:
            raise self._failed(what, where, error) from None

    def _failed(self, what: str, where: str, error: Exception) -> TidemillError:
        """Return the failure for an error of the library, which raises specific classes only for some requests."""
        text = str(error)
        if _NO_BUCKET in text:
            return self._failure(f"cannot {what} {where}: the bucket does not exist; create it first")
        if isinstance(error, PermissionError) or _REFUSED.search(text):
            return self._failure(
                f"cannot {what} {where}: the store refused access. Check the credentials (s3.access-key and "
                "s3.secret-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and the bucket's policy: "
                f"{_line(error)}"
            )
        return self._failure(f"cannot {what} {where}: {_line(error)}")

    def _connected(self) -> tuple[Any, Any]:
        if find_spec("obstore") is None:
            raise ConfigurationError(
                f"{self._purpose} {self.uri} is on an object store, for which the package 'obstore' is needed: "
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
            settings["region"] = "us-east-1"  # self-hosted stores have no region, but the signature requires one
        client = {"timeout": options.get("timeout", _TIMEOUT), "allow_http": endpoint.startswith("http://")}
        backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2}
        retry = {"retry_timeout": timedelta(minutes=2), "backoff": backoff}
        try:
            retry["max_retries"] = int(options.get("max-retries", _RETRIES))
            connect: Any = from_url  # its overloads only accept literal settings
            return connect(self.uri, config=settings, client_options=client, retry_config=retry)
        except (exceptions.BaseError, ValueError) as error:
            raise ConfigurationError(f"{self.uri} cannot be used as a {self._purpose}: {_line(error)}") from None


def _line(error: BaseException) -> str:
    """Return the library's message without its nested details; it has the request and status, never credentials."""
    text = str(error).partition("\n\nDebug source")[0]
    return " ".join(text.split())[:500]
