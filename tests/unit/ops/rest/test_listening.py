"""How many connections a server has open, whoever comes."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest

from tidemill.ops.rest.listening import listen


def test_those_who_make_room_are_closed_before_more_come_in() -> None:
    async def flood() -> None:
        with ExitStack() as stack:
            server = stack.enter_context(listen("127.0.0.1", [0], 8, set))
            server.setblocking(False)

            def taken(many: int) -> list[socket.socket]:
                for _ in range(many):
                    stack.enter_context(socket.create_connection(server.getsockname(), timeout=60))
                return [stack.enter_context(server.accept()[0]) for _ in range(many)]

            first = taken(8)
            taken(3)
            with pytest.raises(BlockingIOError):
                taken(1)
            assert [one.recv(1) for one in first[:3]] == [b""] * 3, "they are told to end"
            first[0].close()  # as the event loop does
            server.accept()[0].close()

    asyncio.run(flood())
