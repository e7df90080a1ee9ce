"""The state server: answers queries about the key groups it has, from the committed epochs of a job."""

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

#: How long an epoch may be committed and not seen, in seconds: one look at the storage each time.
POLL_SECONDS: Final = 0.05


class StateServer:
    """Answers requests. What is in memory is answered at once; what must be read, by a few threads.

    Of several servers of a job each can answer everything, and is asked for its share of the key groups.
    """

    def __init__(self, states: CommittedStates, *, threads: int = 2) -> None:
        # configuration
        self._states = states
        # transient
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tidemill-query")

    def handle(self, number: int, what: str, rest: tuple[Any, ...]) -> bytes | Awaitable[bytes]:
        """The answer to a request, at once or later: see :mod:`tidemill.ops.queryable.wire`."""
        try:
            return self._respond(number, what, rest, load=False)
        except NotInMemoryError:
            loop = asyncio.get_running_loop()
            return loop.run_in_executor(self._threads, lambda: self._respond(number, what, rest, load=True))

    async def follow(self, seconds: float = POLL_SECONDS) -> None:
        """Look for new epochs, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._threads, self._states.poll)
            except TidemillError as error:
                log.warning("looking for new epochs failed, and is done again: %s", error)
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Wait for reads that are going on."""
        self._threads.shutdown(cancel_futures=True)

    def _respond(self, number: int, what: str, rest: tuple[Any, ...], *, load: bool) -> bytes:
        try:
            if what == "get":
                return success(number, *self._get(*rest, load=load).encoded())
            if what == "locate":
                return success(number, *self._locate(*rest))
            if what == "schema":
                return success(number, self._schema(*rest))
            raise QueryableStateError(f"there is no request {what!r}")
        except QueryableStateError as error:
            return failure(number, error)
        except (TypeError, ValueError, OverflowError) as error:
            return failure(number, QueryableStateError(f"a request of {what!r} has not the right form: {error}"))
        except TidemillError as error:
            return failure(number, StateUnavailableError(str(error)))

    def _get(self, job: str, name: str, at_least: int, hashes: bytes, keys: list[bytes], *, load: bool) -> Answers:
        self._states.check_job(job)
        if not 0 < len(keys) <= MOST_KEYS:
            raise ValueError(f"{len(keys)} keys: it may be {MOST_KEYS}")
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
