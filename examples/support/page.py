"""The web page of the demo's job."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

from rich.console import Console

from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.notices import AUDIT, unannounced
from tidemill.ops.rest.server import RestServer, server_for

#: The first free port of this range is used.
_PORTS = "8081-8180"


def open_page(console: Console, env: StreamExecutionEnvironment, folder: Path) -> bool:
    """Serve the web page of an environment's jobs, protected by a token, and print its address.

    Returns False if no port is free.
    """
    logging.getLogger(AUDIT).setLevel(logging.WARNING)  # keep the terminal free for the demo's own view
    token = folder / "token"
    configuration = env.get_configuration()
    # The page can then show the state of the finished job, and trigger savepoints while it runs.
    configuration.set_string("execution.checkpointing.dir", str(folder / "checkpoints"))
    configuration.set_string("execution.checkpointing.savepoint-dir", str(folder / "savepoints"))
    configuration.set_string("rest.enabled", "true")
    configuration.set_string("rest.bind-port", _PORTS)
    configuration.set_string("rest.operate-token", f"file:{token}")  # created if it does not exist
    with unannounced():
        server = server_for(configuration)
    if not isinstance(server, RestServer):
        return False
    address = f"{server.url}/#token={token.read_text(encoding='utf-8').strip()}"
    console.print(f"The page of the job: {address}", highlight=False, soft_wrap=True)
    return True


def keep_page(console: Console, seconds: float) -> None:
    """Keep the page open for the user. Return immediately if the output is not a terminal."""
    if not console.is_terminal or "CI" in os.environ or seconds <= 0:
        return
    console.print(f"The page stays for {seconds:.0f} s; Ctrl-C ends it.", highlight=False)
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(seconds)
