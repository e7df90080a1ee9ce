"""The state server: serves queries of its key groups from the committed epochs of a job."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tidemill.errors import TidemillError
from tidemill.ops.queryable.answer import Answers
from tidemill.ops.queryable.blocks import NotInMemoryError
from tidemill.ops.queryable.committed import CommittedStates
from tidemill.ops.queryable.errors import QueryableStateError, StateUnavailableError
from tidemill.ops.queryable.wire import MOST_KEYS, failure, success, unpack_hashes
from tidemill.state.codecs.plain_values import read_plain
from tidemill.state.keys.canonical_key import canonical_key

__all__ = ["StateServer"]

log = logging.getLogger(__name__)

#: Interval in seconds at which the storage is checked for new committed epochs.
POLL_SECONDS: Final = 0.05


class StateServer:
    """Serves requests: immediately if the data is in memory, otherwise in a few threads that read it.

    If a job has several servers, each can serve all requests, but gets those for its share of the key groups.
    """

    def __init__(self, states: CommittedStates, *, threads: int = 2) -> None:
        # configuration
        self._states = states
        # transient
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tidemill-query")

    def handle(self, number: int, what: str, rest: tuple[Any, ...]) -> bytes | Awaitable[bytes]:
        """Return the response to a request, or an awaitable of it: see :mod:`tidemill.ops.queryable.wire`."""
        try:
            return self._respond(number, what, rest, load=False)
        except NotInMemoryError:
            loop = asyncio.get_running_loop()
            return loop.run_in_executor(self._threads, lambda: self._respond(number, what, rest, load=True))

    async def follow(self, seconds: float = POLL_SECONDS) -> None:
        """Check for new epochs forever."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._threads, self._states.poll)
            except TidemillError as error:
                log.warning("checking for new epochs failed and will be retried: %s", error)
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Wait for reads in progress."""
        self._threads.shutdown(cancel_futures=True)

    def _respond(self, number: int, what: str, rest: tuple[Any, ...], *, load: bool) -> bytes:
        try:
            if what == "get":
                return success(number, *self._get(*rest, load=load).encoded())
            if what == "locate":
                return success(number, *self._locate(*rest))
            if what == "schema":
                return success(number, self._schema(*rest))
            raise QueryableStateError(f"unknown request {what!r}")
        except QueryableStateError as error:
            return failure(number, error)
        except (TypeError, ValueError, OverflowError) as error:
            return failure(number, QueryableStateError(f"a {what!r} request is malformed: {error}"))
        except TidemillError as error:
            return failure(number, StateUnavailableError(str(error)))

    def _get(self, job: str, name: str, at_least: int, hashes: bytes, keys: list[bytes], *, load: bool) -> Answers:
        self._states.check_job(job)
        if not 0 < len(keys) <= MOST_KEYS:
            raise ValueError(f"{len(keys)} keys; the limit is {MOST_KEYS}")
        if not load and self._states.view().slot < at_least:
            raise NotInMemoryError
        plain = [canonical_key(read_plain(key)) for key in keys]
        wanted = list(zip(unpack_hashes(hashes), plain, strict=True))
        return self._states.lookup(name, wanted, at_least=int(at_least), load=load)

    def _locate(self, job: str, name: str) -> tuple[Any, ...]:
        self._states.check_job(job)
        found = self._states.state(name)
        types = json.dumps(dict(found.types))
        return found.operator, found.state, found.kind, found.max_parallelism, types, 1

    def _schema(self, schema_id: bytes, *_place: Any) -> bytes | None:
        found = self._states.schema(schema_id)
        return None if found is None else found.encoded
