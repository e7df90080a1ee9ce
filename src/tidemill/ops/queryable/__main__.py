"""``python -m tidemill.ops.queryable``: serve queries of the state of a job, whether it is running or not."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from tidemill.common.configuration import Configuration
from tidemill.errors import TidemillError
from tidemill.ops.queryable.service import Service, address_line, serve

#: The epochs of a running job have priority: if both compete for a core, they get about three times as much of it.
_NICENESS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted, or until the parent process has ended.

    Returns the exit code: 2 for an invalid command line, 1 if the state cannot be served.
    """
    parser = argparse.ArgumentParser(prog="python -m tidemill.ops.queryable", description=__doc__)
    parser.add_argument("--directory", help="the directory of the job, or of several jobs")
    parser.add_argument("--job", help="the job id, if the directory contains several jobs")
    parser.add_argument(
        "-D", dest="options", action="append", default=[], metavar="KEY=VALUE", help="a configuration option"
    )
    parser.add_argument("--from-stdin", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    if parsed.from_stdin:
        service = Service.from_json(sys.stdin.readline())
        if not service.is_server:  # a server inherits the niceness of its proxy
            os.nice(_NICENESS)
    elif parsed.directory is None:
        parser.error("--directory is required")
    else:
        try:
            configuration = Configuration.from_dict(dict(option.split("=", 1) for option in parsed.options))
        except ValueError:
            parser.error("-D requires KEY=VALUE")
        service = Service(parsed.directory, parsed.job, configuration)
    try:
        asyncio.run(_run(service, follows_parent=parsed.from_stdin and not service.stay))
    except TidemillError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _run(service: Service, *, follows_parent: bool) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if follows_parent:
        threading.Thread(target=_await_parent, args=(loop, ended), daemon=True).start()

    def ready(address: tuple[str, int]) -> None:
        sys.stdout.write(address_line(address) + "\n")
        sys.stdout.flush()

    await serve(service, ended, ready)


def _await_parent(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Wait for the end of the parent process, which closes the pipe however it ends."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    loop.call_soon_threadsafe(ended.set)


if __name__ == "__main__":
    sys.exit(main())
