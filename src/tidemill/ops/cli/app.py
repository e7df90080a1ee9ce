"""The command line application and its commands."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tidemill import __version__
from tidemill.ops.cli.doctor import doctor
from tidemill.ops.cli.failures import Verbs
from tidemill.ops.cli.history import history
from tidemill.ops.cli.jobs import checkpoints, list_jobs, logs
from tidemill.ops.cli.page import page
from tidemill.ops.cli.port import port
from tidemill.ops.cli.query import query
from tidemill.ops.cli.queryable import queryable_commands
from tidemill.ops.cli.running import info, run
from tidemill.ops.cli.session import session
from tidemill.ops.cli.state import state_commands
from tidemill.ops.cli.steering import cancel, rescale, savepoint, stop

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    name="tidemill",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: All arguments after the program are passed to the program.
_PROGRAM: Final = {"allow_interspersed_args": False}

app.command(context_settings=_PROGRAM)(run)
app.command(context_settings=_PROGRAM)(info)
app.command()(port)
app.command()(session)
app.command()(history)
app.command("list")(list_jobs)
app.command()(page)
app.command()(cancel)
app.command()(stop)
app.command()(savepoint)
app.command()(rescale)
app.command()(checkpoints)
app.add_typer(state_commands, name="state")
app.command()(query)
app.add_typer(queryable_commands, name="queryable")
app.command()(logs)
app.command()(doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def tidemill(
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Stateful stream processing in Python on Spark: run programs and manage their jobs.

    Exit codes: 0 success; 1 the job or the command failed; 2 invalid command line; 3 another driver runs the job;
    4 the program, its configuration or its storage must be fixed; 5 not found.
    """
