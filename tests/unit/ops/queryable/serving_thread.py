"""A server of queryable state in a thread of the test."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from types import TracebackType

from tests.waiting import eventually
from tidemill.checkpoint.storage.storages import Storage
from tidemill.ops.queryable import QueryableStateClient
from tidemill.ops.queryable.committed import CommittedStates
from tidemill.ops.queryable.connections import Access, Listening, serve_queries
from tidemill.ops.queryable.proxy import StateProxy
from tidemill.ops.queryable.server import StateServer
from tidemill.python_versions import Self
from tidemill.state_processor.job_directory import JobDirectory

JOB = "job-harness"


def give_up(client: QueryableStateClient, reason: str) -> None:
    """Let the time of all who wait be over, as soon as they wait for this reason."""
    waiting = client._connection._waiting
    eventually(lambda: waiting and all(reason in one.reason for one in list(waiting.values())))
    for one in list(waiting.values()):
        one.deadline = 0.0


class ServerThread:
    """``servers`` state servers behind a proxy; one answers by itself."""

    def __init__(
        self, storage: Storage, *, servers: int = 1, token: str | None = None, port: int = 0, follow: bool = True
    ) -> None:
        self._storage = storage
        self._servers = servers
        self._token = token
        self._port = port
        self._follow = follow
        self._ready: Future[int] = Future()
        self._listening: list[Listening] = []
        self.states: list[CommittedStates] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self.port = self._ready.result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def lose(self, server: int) -> None:
        """One of the servers is gone."""
        asyncio.run_coroutine_threadsafe(self._listening[server].close(), self._loop).result(60)

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        access = Access("127.0.0.1", self._token)
        servers, followers, listening = [], [], self._listening
        try:
            for _ in range(self._servers):
                states = CommittedStates(JobDirectory(self._storage, JOB, "storage"))
                states.refresh()
                self.states.append(states)
                servers.append(StateServer(states))
                if self._follow:
                    followers.append(asyncio.create_task(servers[-1].follow(0.005)))
                listening.append(
                    await serve_queries(servers[-1].handle, access, [self._port if self._servers == 1 else 0])
                )
            proxy = StateProxy([("127.0.0.1", one.port) for one in listening], self._token)
            if self._servers > 1:
                listening.append(await serve_queries(proxy.handle, access, [self._port]))
        except BaseException as error:
            self._ready.set_exception(error)
            raise
        self._ready.set_result(listening[-1].port)
        await self._end.wait()
        await proxy.close()
        for task in followers:
            task.cancel()
        for one in listening:
            await one.close()
        for server in servers:
            server.close()
