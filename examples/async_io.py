"""Async I/O: enriches orders with the customer's city, which an external service provides.

The requests for many orders are in flight at the same time. The service is sometimes busy; those requests are retried.

Run it with ``python -m examples.async_io``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from examples.support.target import environment
from tidemill.common import Time, Types
from tidemill.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy

ORDERS = [(1, "ann"), (2, "bob"), (3, "cho"), (4, "ann"), (5, "eve"), (6, "bob")]


class Service(BaseHTTPRequestHandler):
    """Returns the city of a customer, but answers only every second request."""

    cities = {"ann": "Lisbon", "bob": "Oslo", "cho": "Seoul"}  # noqa: RUF012 - never changed
    asked = 0

    def do_GET(self) -> None:
        Service.asked += 1
        city = self.cities.get(self.path[1:], "")
        self.send_response(503 if Service.asked % 2 else 200 if city else 404)
        self.end_headers()
        self.wfile.write(city.encode())

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


class City(AsyncFunction):
    """Queries the service. A real program would use an HTTP client here, with a session created in ``open()``."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def async_invoke(self, value: tuple[int, str]) -> list[tuple[int, str, str]]:
        order, customer = value
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET /{customer} HTTP/1.0\r\n\r\n".encode())
            head, _, city = (await reader.read()).decode().partition("\r\n\r\n")
        finally:
            writer.close()
        if " 503 " in head:
            raise ConnectionError("the service is busy")
        return [(order, customer, city or "unknown")]


@contextlib.contextmanager
def service() -> Iterator[int]:
    """Run the service in a thread, and yield its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    busy = AsyncRetryStrategy.fixed_delay(
        max_attempts=100,
        backoff_time_millis=10,
        result_predicate=None,
        exception_predicate=lambda error: isinstance(error, ConnectionError),
    )
    orders = env.from_collection(ORDERS)
    with service() as port:
        completed = AsyncDataStream.ordered_wait_with_retry(
            orders,
            City(port),
            Time.seconds(60),
            busy,
            capacity=10,
            output_type=Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()]),
        )
        for order, customer, city in sorted(completed.uid("city").execute_and_collect("async I/O")):
            print(f"order {order} of {customer} goes to {city}")


if __name__ == "__main__":
    main()
