"""``QueryableStateClient``: looks up the committed state of a job by key from another program."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

from tidemill.checkpoint.model import Epoch
from tidemill.common.completable_future import CompletableFuture
from tidemill.common.job_id import JobID
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.errors import SerializationError, TidemillError
from tidemill.ops.queryable.answer import ValueReader
from tidemill.ops.queryable.client_connection import ClientConnection
from tidemill.ops.queryable.client_lookups import Location, Lookups
from tidemill.ops.queryable.errors import QueryableStateError, UnknownKeyOrNamespaceError
from tidemill.python_versions import Self
from tidemill.state.codecs.serializers import Incompatible, compatibility, parse_type_snapshot, type_text
from tidemill.state.files.sections import type_refusal
from tidemill.state.keyed.immutable_states import ImmutableState
from tidemill.state.keyed.kinds import kind_of

__all__ = ["PlainAnswer", "QueryableStateClient"]


class PlainAnswer(NamedTuple):
    """The value of a key as plain data, None if it has none, and the committed epoch in which it was looked up."""

    epoch: int
    value: Any


class _AsState:
    """The result is a state object of the descriptor's kind."""

    def __init__(self, descriptor: StateDescriptor, key_type: TypeInformation | None, *, allow_pickle: bool) -> None:
        # configuration
        self.descriptor = descriptor
        self.key_type = key_type
        self.kind = kind_of(descriptor)
        self.reader = ValueReader(self.kind.shape(descriptor, key_type), allow_pickle=allow_pickle)
        # transient
        self._fits: Location | None = None

    def check(self, location: Location) -> None:
        if location is not self._fits:
            _check_kind(location, self.descriptor)
            _check_key(location, self.key_type)
            self._fits = location

    def result(self, epoch: Epoch, value: Any) -> ImmutableState:
        return self.kind.queried(self.descriptor, epoch, value)

    def missing(self, epoch: Epoch, key: Any) -> NoReturn:
        raise UnknownKeyOrNamespaceError(f"there is no value for key {key!r:.200} in epoch {epoch}")


class _AsPlainData:
    """The result is plain data, for any kind of state."""

    def __init__(self) -> None:
        self.reader = ValueReader()

    def check(self, location: Location) -> None:
        """Accept any state."""

    def result(self, epoch: Epoch, value: Any) -> PlainAnswer:
        return PlainAnswer(epoch, value)

    def missing(self, epoch: Epoch, key: Any) -> PlainAnswer:
        return PlainAnswer(epoch, None)


class QueryableStateClient:
    """Looks up keys in the queryable states of a job. Thread-safe; any number of lookups can be in progress.

    ``remote_hostname`` and ``remote_port`` are those of the proxy. ``token`` is the token that the proxy requires if it
    does not listen on loopback. A lookup is retried for ``timeout`` seconds, also after lost connections and restarts
    of the server. Every result is from a committed epoch, and never from an older epoch than the previous result.

    The server is not trusted to run code in the client: unless ``allow_pickle`` is set, nothing is unpickled, and only
    classes of the declared types are instantiated.
    """

    def __init__(
        self,
        remote_hostname: str = "localhost",
        remote_port: int = 9069,
        *,
        token: str | None = None,
        allow_pickle: bool = False,
        timeout: float = 10.0,
    ) -> None:
        # configuration
        self._allow_pickle = allow_pickle
        # transient
        self._connection = ClientConnection(remote_hostname, remote_port, token, timeout)
        self._lookups = Lookups(self._connection)
        self._as_plain_data = _AsPlainData()
        self._as_states: dict[tuple[str, str], _AsState] = {}

    def get_kv_state(
        self,
        job_id: JobID | str,
        queryable_state_name: str,
        key: Any,
        key_type_info: TypeInformation | None,
        state_descriptor: StateDescriptor,
    ) -> CompletableFuture[ImmutableState]:
        """Look up the state of a key, as a read-only state object of the descriptor's kind.

        Its ``epoch`` is the committed epoch of the state. The future fails with
        :class:`~tidemill.ops.queryable.errors.UnknownKeyOrNamespaceError` if there is no value (or no longer),
        ``UnknownStateNameError``, ``UnknownJobError``, ``StateUnavailableError`` if there is no response in time, and
        with :class:`~tidemill.errors.TidemillError` if the key or the descriptor does not match the stored state.
        """
        try:
            if key_type_info is not None:
                key_type_info.validate(key)
            wanted = self._as_state(str(job_id), queryable_state_name, key_type_info, state_descriptor)
        except TidemillError as error:
            return CompletableFuture.failed(error)
        return self._lookups.get(str(job_id), queryable_state_name, key, wanted)

    def get_plain(self, job_id: JobID | str, queryable_state_name: str, key: Any) -> CompletableFuture[PlainAnswer]:
        """Like :meth:`get_kv_state`, but without a descriptor: the value is plain data, as in the state processor.

        The value of a key without an entry is None.
        """
        return self._lookups.get(str(job_id), queryable_state_name, key, self._as_plain_data)

    def shutdown_and_wait(self) -> None:
        """Close the connection. Lookups in progress fail."""
        self._connection.close()

    def shutdown_and_handle(self) -> CompletableFuture[None]:
        """Like :meth:`shutdown_and_wait`, in the background."""
        future: CompletableFuture[None] = CompletableFuture()

        def close() -> None:
            self._connection.close()
            future._future.set_result(None)

        threading.Thread(target=close, name="tidemill-query-client-end", daemon=True).start()
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown_and_wait()

    def _as_state(self, job: str, name: str, key_type: TypeInformation | None, descriptor: StateDescriptor) -> _AsState:
        known = self._as_states.get((job, name))
        if known is None or known.descriptor is not descriptor or known.key_type != key_type:
            known = _AsState(descriptor, key_type, allow_pickle=self._allow_pickle)
            self._as_states[job, name] = known
        return known


def _check_kind(location: Location, descriptor: StateDescriptor) -> None:
    if location.kind != descriptor.kind:
        raise QueryableStateError(
            f"state {location.state!r} of operator {location.operator} is {location.kind} state, and cannot be read as "
            f"{descriptor.kind} state: {descriptor!r}"
        )


def _check_key(location: Location, key_type: TypeInformation | None) -> None:
    stored = parse_type_snapshot(location.types).get("key") if location.types else None
    if stored is None or key_type is None:
        return
    declared = key_type.describe()
    found = compatibility(stored, declared, is_key=True)
    if isinstance(found, Incompatible):
        what = type_refusal(location.state, "key", type_text(stored), type_text(declared), found.reason)
        raise SerializationError(f"state {location.state!r} of operator {location.operator} {what}")
