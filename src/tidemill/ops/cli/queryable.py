"""``tidemill queryable``: the servers of queryable state on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tidemill.errors import JobExecutionError
from tidemill.ops.cli.arguments import AsJson
from tidemill.ops.cli.failures import Verbs
from tidemill.ops.cli.output import print_json, print_table
from tidemill.ops.errors import NotThereError

__all__ = ["queryable_commands"]

queryable_commands = typer.Typer(
    cls=Verbs, no_args_is_help=True, help="List and stop servers of queryable state.", rich_markup_mode=None
)


def known_servers() -> list[str]:
    """Return the jobs with a server, for shell completion."""
    from tidemill.ops.queryable.servers import servers

    return [server.job for server in servers()]


@queryable_commands.command("ls")
def list_servers(as_json: AsJson = False) -> None:
    """List the servers of queryable state that you run on this machine.

    A server with queryable-state.keep-running outlives its driver.
    """
    from tidemill.ops.queryable.servers import servers

    found = servers()
    if as_json:
        print_json([asdict(server) for server in found])
        return
    rows = [
        (server.job, f"{server.host}:{server.port}", server.pid, "yes" if server.keeps_running else "no")
        for server in found
    ]
    print_table(("job", "address", "pid", "keeps running"), rows, empty="no servers")


@queryable_commands.command("stop")
def stop_server(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job id.", autocompletion=known_servers)],
    as_json: AsJson = False,
) -> None:
    """Stop the server of queryable state of a job. The job is not affected."""
    from tidemill.ops.queryable.servers import servers, stop

    found = [server for server in servers() if server.job == job]
    if not found:
        raise NotThereError(f"no server of queryable state on this machine serves job {job!r}")
    for server in found:
        if not stop(server):
            raise JobExecutionError(f"the server of job {job}, process {server.pid}, has not ended")
    if as_json:
        print_json({"job": job, "stopped": [server.pid for server in found]})
    else:
        typer.echo(f"The server of job {job} is stopped.")
