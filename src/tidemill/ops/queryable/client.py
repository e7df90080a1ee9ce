"""``QueryableStateClient``: the committed state of a job, looked up by key from another program."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from tidemill.common.completable_future import CompletableFuture
from tidemill.common.job_id import JobID
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.state_descriptors import StateDescriptor
from tidemill.errors import SerializationError, TidemillError
from tidemill.ops.queryable.answer import NOTHING, Answer, Part, PartSchema
from tidemill.ops.queryable.client_connection import ClientConnection
from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError, UnknownKeyOrNamespaceError
from tidemill.ops.queryable.immutable_states import ImmutableState, immutable_state
from tidemill.state.sections import StateShape, refusal
from tidemill.state.serializers import Incompatible, compatibility, parse_snapshot, type_text
from tidemill.state.stable_hash import stable_hash
from tidemill.state.tagged import TaggedWriter

__all__ = ["PlainAnswer", "QueryableStateClient"]

T = TypeVar("T")

#: How often a lookup is begun again because the server that answered it is gone.
_TRIES: Final = 5


class PlainAnswer(NamedTuple):
    """The value of a key as plain data, and the epoch that committed it."""

    epoch: int
    value: Any


@dataclass(frozen=True)
class _Location:
    """What a client must know of a state, asked once."""

    operator: str
    state: str
    kind: str
    max_parallelism: int
    types: dict[str, Any]


class QueryableStateClient:
    """Looks up keys in the queryable states of a job. Safe for threads; any number of lookups can be under way.

    ``remote_hostname`` and ``remote_port`` are those of the proxy, ``token`` is the one it wants where it listens on
    another address than loopback. A lookup is tried for ``timeout`` seconds, over lost connections and restarts of the
    server. Every answer is of a committed epoch, and not of an older one than the answer before it.

    Values come from a server, which is not trusted to run code here: unless ``allow_pickle`` is set, nothing is
    unpickled, and of classes only those of the declared types are made.
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
        self._locations: dict[tuple[str, str], _Location] = {}
        self._schemas: dict[bytes, PartSchema] = {}
        self._shapes: dict[tuple[str, str], tuple[StateDescriptor, TypeInformation | None, StateShape]] = {}
        self._newest: dict[str, int] = {}
        self._lock = threading.Lock()

    def get_kv_state(
        self,
        job_id: JobID | str,
        queryable_state_name: str,
        key: Any,
        key_type_info: TypeInformation | None,
        state_descriptor: StateDescriptor,
    ) -> CompletableFuture[ImmutableState]:
        """What a state has for a key, as a state object of the descriptor's kind that can be read only.

        Its ``epoch`` says which committed epoch that was. The future fails with
        :class:`~tidemill.ops.queryable.errors.UnknownKeyOrNamespaceError` if there is nothing (any more),
        ``UnknownStateNameError``, ``UnknownJobError``, ``StateUnavailableError`` if no answer came in time, and with
        :class:`~tidemill.errors.TidemillError` if the key or the descriptor does not fit what is stored.
        """

        def convert(answer: Answer) -> ImmutableState:
            shape = self._shape(str(job_id), queryable_state_name, key_type_info, state_descriptor)
            value = answer.value(shape, allow_pickle=self._allow_pickle)
            return immutable_state(state_descriptor, answer.epoch, self._present(value, answer, key))

        def check(location: _Location) -> None:
            _check_kind(location, state_descriptor)
            _check_key(location, key_type_info)

        if key_type_info is not None:
            try:
                key_type_info.validate(key)
            except TidemillError as error:
                return CompletableFuture.failed(error)
        return self._get(str(job_id), queryable_state_name, key, check, convert)

    def get_plain(self, job_id: JobID | str, queryable_state_name: str, key: Any) -> CompletableFuture[PlainAnswer]:
        """As :meth:`get_kv_state`, without a descriptor: the value as plain data, as the state processor shows it."""

        def convert(answer: Answer) -> PlainAnswer:
            return PlainAnswer(answer.epoch, self._present(answer.plain(), answer, key))

        return self._get(str(job_id), queryable_state_name, key, lambda location: None, convert)

    def shutdown_and_wait(self) -> None:
        """End the connection; lookups that are not answered fail."""
        self._connection.close()

    def shutdown_and_handle(self) -> CompletableFuture[None]:
        """:meth:`shutdown_and_wait`, in the background."""
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

    # --- from a key to an answer: location, rows, schemas that are new, value

    def _get(
        self, job: str, name: str, key: Any, check: Callable[[_Location], None], convert: Callable[[Answer], T]
    ) -> CompletableFuture[T]:
        result: Future[T] = Future()
        attempts = itertools.count(1)
        try:
            hashed, encoded = stable_hash(key), TaggedWriter().dumps(key)
        except TidemillError as error:
            return CompletableFuture.failed(error)

        def located(location: _Location) -> None:
            check(location)
            ask()

        def ask() -> None:
            asked = self._connection.ask("get", job, name, hashed, encoded, self._newest.get(job, 0))
            _then(asked, result, answered)

        def answered(values: tuple[Any, ...]) -> None:
            epoch, slot, now, declared, parts = values
            unknown = [schema for schema in (declared, *(one for one, _ in parts)) if schema not in self._schemas]
            if unknown:
                asked = self._connection.ask("schema", unknown[0], job, name, hashed)
                _then(asked, result, lambda found: learned(unknown[0], found, values))
                return
            with self._lock:
                self._newest[job] = max(slot, self._newest.get(job, 0))
            found = tuple(Part.decode(self._schemas[schema], rows) for schema, rows in parts)
            result.set_result(convert(Answer(epoch, slot, now, self._schemas[declared], found)))

        def learned(schema: bytes, found: tuple[Any, ...], values: tuple[Any, ...]) -> None:
            self._locations.pop((job, name), None)  # the program may have changed
            if found[0] is not None:
                self._schemas[schema] = PartSchema.decode(found[0])
                answered(values)
            elif next(attempts) < _TRIES:  # the answer was that of a server that is gone: ask for the key again
                ask()
            else:
                raise StateUnavailableError("the server does not know the schema of its own answer")

        known = self._locations.get((job, name))
        if known is not None:
            _step(result, lambda: located(known))
        else:
            _then(
                self._connection.ask("locate", job, name), result, lambda values: located(self._note(job, name, values))
            )
        return CompletableFuture(result)

    def _note(self, job: str, name: str, values: tuple[Any, ...]) -> _Location:
        operator, state, kind, groups, types = values
        location = self._locations[job, name] = _Location(operator, state, kind, groups, json.loads(types))
        return location

    def _shape(self, job: str, name: str, key_type: TypeInformation | None, descriptor: StateDescriptor) -> StateShape:
        known = self._shapes.get((job, name))
        if known is None or known[0] is not descriptor or known[1] is not key_type:
            known = (descriptor, key_type, StateShape.of(descriptor, key_type))
            self._shapes[job, name] = known
        return known[2]

    @staticmethod
    def _present(value: Any, answer: Answer, key: Any) -> Any:
        if value is NOTHING:
            raise UnknownKeyOrNamespaceError(f"there is nothing for key {key!r:.200} in epoch {answer.epoch}")
        return value


def _then(asked: Future[tuple[Any, ...]], result: Future[Any], go_on: Callable[[tuple[Any, ...]], None]) -> None:
    """Go on when an answer is there; what goes wrong on the way is the result."""
    asked.add_done_callback(lambda done: _step(result, lambda: go_on(done.result())))


def _step(result: Future[Any], step: Callable[[], None]) -> None:
    try:
        step()
    except TidemillError as error:
        result.set_exception(error)
    except (ValueError, TypeError, LookupError) as error:
        result.set_exception(QueryableStateError(f"an answer has not the right form: {error!r}"))
    except BaseException as error:
        result.set_exception(error)


def _check_kind(location: _Location, descriptor: StateDescriptor) -> None:
    if location.kind != descriptor.kind:
        raise QueryableStateError(
            f"state {location.state!r} of operator {location.operator} is {location.kind} state, and cannot be read as "
            f"{descriptor.kind} state: {descriptor!r}"
        )


def _check_key(location: _Location, key_type: TypeInformation | None) -> None:
    stored = parse_snapshot(location.types).get("key") if location.types else None
    if stored is None or key_type is None:
        return
    declared = key_type.describe()
    found = compatibility(stored, declared, is_key=True)
    if isinstance(found, Incompatible):
        what = refusal("key", type_text(stored), type_text(declared), found.reason)
        raise SerializationError(f"state {location.state!r} of operator {location.operator} {what}")
