"""Lookups of keys: locating the state, and combining lookups in requests.

A lookup joins the request for its state that is about to be sent, or starts a new one. The lookups of one request share
the cost of sending it, of the response, and of decoding the rows of all keys.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tidemill.checkpoint.model import Epoch
from tidemill.common.completable_future import CompletableFuture
from tidemill.errors import TidemillError
from tidemill.ops.queryable.answer import NOTHING, Answers, AnswerValues, PartSchema, ValueReader
from tidemill.ops.queryable.client_connection import ClientConnection, settle
from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import LARGEST_REQUEST, MOST_KEYS, pack_hashes, share_of
from tidemill.state.codecs.tagged_writer import TaggedWriter
from tidemill.state.keys.stable_hash import stable_hash

__all__ = ["Location", "Lookups", "Wanted"]

#: Maximum number of retries of a request if the server that responded has ended.
_TRIES: Final = 5
#: Maximum number of cached schemas. A state has one for each of its declarations.
_MOST_SCHEMAS: Final = 1024
#: Maximum number of lookups in progress. Further ones block.
_MOST_LOOKUPS: Final = 4096
#: No lookup joins a request with more than this number of bytes of keys.
_FULL_BYTES: Final = 64 << 10
#: No lookup joins a request that has waited for this many seconds, because all of its lookups time out together.
_OPEN_SECONDS: Final = 0.05
_LARGEST_KEY: Final = LARGEST_REQUEST - (64 << 10)


@dataclass(frozen=True)
class Location:
    """The information about a state that a client needs, requested once."""

    operator: str
    state: str
    kind: str
    max_parallelism: int
    types: dict[str, Any]
    shares: int


class Wanted(Protocol):
    """How to convert the rows of a key to a result."""

    reader: ValueReader

    def check(self, location: Location) -> None:
        """Raise an error if the result type does not match the state."""
        ...

    def result(self, epoch: Epoch, value: Any) -> Any:
        """Return the result for a value."""
        ...

    def missing(self, epoch: Epoch, key: Any) -> Any:
        """Return the result for a key without a value, or raise an error."""
        ...


@dataclass(eq=False)
class _Lookup:
    job: str
    name: str
    key: Any
    hashed: int
    encoded: bytes
    wanted: Wanted
    future: Future[Any] = field(default_factory=Future)


#: A job, the name of a state, and the share of its key groups. Lookups of one place may be combined.
_Place = tuple[str, str, int]


@dataclass(eq=False)
class _Batch:
    """The lookups of one request. Others may join as long as the batch is open."""

    lookups: list[_Lookup]
    place: _Place | None = None
    began: float = 0.0
    bytes: int = 0
    tries: int = 0


class Lookups:
    """The lookups of one client. Thread-safe."""

    def __init__(self, connection: ClientConnection) -> None:
        # configuration
        self._connection = connection
        # transient
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._under_way = 0
        self._open: dict[_Place, _Batch] = {}
        self._locating: dict[tuple[str, str], tuple[Future[tuple[Any, ...]], float]] = {}
        self._locations: dict[tuple[str, str], Location] = {}
        self._schemas: dict[bytes, PartSchema] = {}
        self._newest: dict[str, int] = {}

    def get(self, job: str, name: str, key: Any, wanted: Wanted) -> CompletableFuture[Any]:
        """Look up a key."""
        try:
            lookup = _Lookup(job, name, key, stable_hash(key), TaggedWriter().dumps(key), wanted)
        except TidemillError as error:
            return CompletableFuture.failed(error)
        if len(lookup.encoded) > _LARGEST_KEY:
            return CompletableFuture.failed(
                QueryableStateError(f"a key of {len(lookup.encoded)} bytes is too large: {_LARGEST_KEY} are allowed")
            )
        self._await_room()
        location = self._locations.get((job, name))
        if location is not None:
            self._step([lookup], lambda: self._join(lookup, location))
        else:
            located = self._locate(job, name)
            self._then(located, [lookup], lambda values: self._join(lookup, self._note(job, name, values)))
        return CompletableFuture(lookup.future)

    # --- requests and responses

    def _join(self, lookup: _Lookup, location: Location) -> None:
        """Add a lookup to the next request for its state."""
        lookup.wanted.check(location)
        share = share_of(lookup.hashed, location.max_parallelism, location.shares) if location.shares > 1 else 0
        place, size, now = (lookup.job, lookup.name, share), len(lookup.encoded), time.monotonic()
        with self._lock:
            batch = self._open.get(place)
            if batch is not None and now - batch.began < _OPEN_SECONDS and batch.bytes + size <= _LARGEST_KEY:
                batch.lookups.append(lookup)
                batch.bytes += size
                if len(batch.lookups) == MOST_KEYS or batch.bytes > _FULL_BYTES:
                    del self._open[place]
                return
            batch = self._open[place] = _Batch([lookup], place, now, size)
        self._ask(batch)

    def _ask(self, batch: _Batch) -> None:
        """Request the keys of a batch, including lookups that join until it is sent or has timed out."""
        first = batch.lookups[0]

        def request() -> tuple[Any, ...]:
            self._shut(batch)
            hashes = pack_hashes([lookup.hashed for lookup in batch.lookups])
            keys = [lookup.encoded for lookup in batch.lookups]
            return first.job, first.name, self._newest.get(first.job, 0), hashes, keys

        asked = self._connection.ask_for("get", request)
        asked.add_done_callback(lambda _: self._shut(batch))
        self._then(asked, batch.lookups, lambda values: self._answered(batch, values))

    def _shut(self, batch: _Batch) -> None:
        """Close a batch for further lookups."""
        with self._lock:
            if batch.place is not None and self._open.get(batch.place) is batch:
                del self._open[batch.place]

    def _answered(self, batch: _Batch, values: tuple[Any, ...]) -> None:
        first, (_, slot, _, declared, parts, _) = batch.lookups[0], values
        unknown = next((one for one in (declared, *(schema for schema, _ in parts)) if one not in self._schemas), None)
        if unknown is not None:
            asked = self._connection.ask("schema", unknown, first.job, first.name, first.hashed)
            self._then(asked, batch.lookups, lambda found: self._learned(batch, unknown, found, values))
            return
        with self._lock:
            self._newest[first.job] = max(slot, self._newest.get(first.job, 0))
        answers = Answers.decode(values, self._schemas)
        if len(answers.places) != len(batch.lookups):
            raise QueryableStateError("a response does not match the requested keys")
        self._hand_out(batch.lookups, answers)

    def _learned(self, batch: _Batch, schema: bytes, found: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        first = batch.lookups[0]
        self._locations.pop((first.job, first.name), None)  # the program may have changed
        if found[0] is not None:
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[schema] = PartSchema.decode(found[0])
            self._answered(batch, values)
        elif batch.tries < _TRIES:  # the server that responded has ended, so request the keys again
            batch.tries += 1
            self._ask(batch)
        else:
            raise StateUnavailableError("the server does not know the schema of its own response")

    def _hand_out(self, lookups: list[_Lookup], answers: Answers) -> None:
        values: dict[ValueReader, AnswerValues] = {}
        left_out = []
        for number, lookup in enumerate(lookups):
            if answers.places[number] is None:
                left_out.append(lookup)
                continue
            reader = lookup.wanted.reader
            found = values.get(reader)
            if found is None:
                found = values[reader] = AnswerValues(answers, reader)
            try:
                result = self._result(lookup, answers.epoch, found.of(number))
            except Exception as error:
                settle(lookup.future, error=_told(error))
            else:
                settle(lookup.future, result)
        if len(left_out) == 1 == len(lookups):
            raise QueryableStateError("a response omits the only requested key")
        self._make_room(len(lookups) - len(left_out))
        for lookup in left_out:
            self._ask(_Batch([lookup]))

    @staticmethod
    def _result(lookup: _Lookup, epoch: Epoch, value: Any) -> Any:
        if value is NOTHING:
            return lookup.wanted.missing(epoch, lookup.key)
        return lookup.wanted.result(epoch, value)

    def _locate(self, job: str, name: str) -> Future[tuple[Any, ...]]:
        """Request the location of a state; concurrent lookups share the response."""
        now = time.monotonic()
        with self._lock:
            asked, began = self._locating.get((job, name), (None, 0.0))
            if asked is None or asked.done() or now - began > _OPEN_SECONDS:
                asked = self._connection.ask("locate", job, name)
                self._locating[job, name] = (asked, now)
            return asked

    def _note(self, job: str, name: str, values: tuple[Any, ...]) -> Location:
        found = self._locations.get((job, name))
        if found is None:
            operator, state, kind, groups, types, shares = values
            found = Location(operator, state, kind, groups, json.loads(types), shares)
            self._locations[job, name] = found
        return found

    # --- errors fail the lookups

    def _then(
        self, asked: Future[tuple[Any, ...]], lookups: list[_Lookup], go_on: Callable[[tuple[Any, ...]], None]
    ) -> None:
        asked.add_done_callback(lambda done: self._step(lookups, lambda: go_on(done.result())))

    def _step(self, lookups: list[_Lookup], step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            told = _told(error)
            for lookup in lookups:
                settle(lookup.future, error=told)
            self._make_room(len(lookups))

    def _await_room(self) -> None:
        with self._room:
            while self._under_way >= _MOST_LOOKUPS and not self._connection.is_this_thread:
                self._room.wait()
            self._under_way += 1

    def _make_room(self, lookups: int) -> None:
        with self._room:
            was_full = self._under_way >= _MOST_LOOKUPS
            self._under_way -= lookups
            if was_full:
                self._room.notify_all()


def _told(error: Exception) -> Exception:
    """Return the error to report for an exception."""
    if isinstance(error, (ValueError, TypeError, LookupError)) and not isinstance(error, TidemillError):
        return QueryableStateError(f"a response is malformed: {error!r}")
    return error
