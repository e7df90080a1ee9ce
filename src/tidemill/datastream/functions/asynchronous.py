"""Functions that wait for other services: many records are on their way at once, none blocks the others."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, Generic

from tidemill.datastream.functions.base import Function
from tidemill.datastream.functions.type_parameters import IN, OUT


class AsyncFunction(Function, Generic[IN, OUT]):
    """Asks something outside the job for each record; see :class:`AsyncDataStream`.

    ``async_invoke`` runs on an event loop of the subtask, together with that of other records. All of them share the
    function object and one thread: nothing interrupts the function between two ``await``. It must not block. Clients
    that do (``requests``, ``time.sleep``, most database drivers) belong into ``await asyncio.to_thread(...)``: a
    blocking call stops the calls of all other records too, and its timeout is noticed only when it returns.

    ``open`` and ``close`` run on the same loop, and may be ``async def`` themselves: a client session made in ``open``
    serves all records. There is no keyed state and no timer.

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
        """The results for one record, any number of them. An exception fails the job, unless it is to be retried."""

    def timeout(self, value: Any) -> Iterable[Any]:
        """The results for a record whose call took too long and was cancelled; raises ``TimeoutError`` by default."""
        raise TimeoutError(
            "async_invoke() took longer than its timeout: allow for more, or override timeout() to give results"
        )
