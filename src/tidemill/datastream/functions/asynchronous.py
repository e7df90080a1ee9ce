"""Functions that call external services asynchronously, for many records concurrently."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, Generic

from tidemill.datastream.functions.base import Function
from tidemill.datastream.functions.type_parameters import IN, OUT


class AsyncFunction(Function, Generic[IN, OUT]):
    """Calls an external service for each record; see :class:`AsyncDataStream`.

    ``async_invoke`` runs on the event loop of the subtask, concurrently with the calls for other records. All calls
    share the function object and one thread: the function is never interrupted between two ``await`` expressions. It
    must not block. Wrap blocking clients (``requests``, ``time.sleep``, most database drivers) in
    ``await asyncio.to_thread(...)``: a blocking call also stops the calls for all other records, and its timeout is
    only detected when it returns.

    ``open`` and ``close`` run on the same loop and may be ``async def``: a client session created in ``open`` can be
    used for all records. Keyed state and timers are not available.

    >>> import asyncio
    >>> class Lookup(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         await asyncio.sleep(0.001)  # a request
    ...         return [(value, value * value)]
    >>> asyncio.run(Lookup().async_invoke(3))
    [(3, 9)]
    """

    @abc.abstractmethod
    async def async_invoke(self, value: Any) -> Iterable[Any]:
        """Returns any number of results for one record. An exception fails the job, unless the call is retried."""

    def timeout(self, value: Any) -> Iterable[Any]:
        """Returns results for a record whose call timed out and was cancelled. Raises ``TimeoutError`` by default."""
        raise TimeoutError(
            "async_invoke() took longer than its timeout: increase the timeout, or override timeout() to return results"
        )
