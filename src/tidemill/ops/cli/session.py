"""``tidemill session``: a process without a job that serves REST and the web page and accepts programs to run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from tidemill.common.configuration import Configuration
from tidemill.config import RestOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.cli.arguments import ConfigFile, Defined, configured, serve_rest
from tidemill.ops.cli.output import is_attended
from tidemill.ops.cli.page import page_address
from tidemill.ops.cli.serving import until_ended
from tidemill.ops.drivers.records import RestAddress
from tidemill.ops.rest.notices import tell_always

__all__ = ["session"]


def session(
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port to listen on. Default: the first free port."),
    ] = None,
    defined: Defined = None,
    config: ConfigFile = None,
) -> None:
    """Serve REST and the web page without a job, and accept programs to run.

    Programs are uploaded at /jars. Each runs in a separate process, as with 'tidemill run -d', with the settings given
    here. All of your jobs on this machine are listed; those that have ended are shown as their history records them.
    Anyone who has the token can run any code as you. The session ends when it is interrupted or terminated; the jobs
    continue to run.
    """
    settings = configured(config, defined)
    if port is not None:
        settings.set(RestOptions.BIND_PORT, str(port))
    serve_rest(settings)
    if not settings.contains(RestOptions.SUBMIT):
        settings.set(RestOptions.SUBMIT, True)
    with until_ended() as wait:
        _serve(settings, wait)


def _serve(settings: Configuration, wait: Callable[[], None]) -> None:
    """Serve until ``wait`` returns."""
    from tidemill.ops.rest.other_drivers import OtherDrivers
    from tidemill.ops.rest.program_runs import Programs
    from tidemill.ops.rest.server import RestServer, warn_of
    from tidemill.ops.rest.settings import RestSettings

    wanted = RestSettings.of(settings)
    tell_always(settings)
    programs = Programs(settings, begin_with=settings) if wanted.submit else None
    try:
        server = RestServer(wanted, programs, OtherDrivers(settings))
    except OSError as error:
        raise ConfigurationError(f"the session cannot listen: {error}") from error
    try:
        warn_of(server)
        where = settings.get(RestOptions.OPERATE_TOKEN)
        typer.echo(f"REST is at {server.url}; it requires the token in {where}")
        if is_attended(sys.stdout):
            typer.echo(f"The page: {page_address(RestAddress(server.url, where))}")
        wait()
    finally:
        server.close()
