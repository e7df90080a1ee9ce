"""``tidemill history``: a process that serves the web page and REST for jobs that have ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, HistoryOptions, RestOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.cli.arguments import ConfigFile, Defined, configured, serve_rest
from tidemill.ops.cli.failures import finding
from tidemill.ops.cli.output import is_attended
from tidemill.ops.cli.page import page_address
from tidemill.ops.cli.serving import until_ended
from tidemill.ops.drivers.records import RestAddress, drivers
from tidemill.ops.errors import NotThereError
from tidemill.ops.rest.notices import tell_always
from tidemill.runtime.history.archive import HISTORY_FOLDER, HistoryFiles, history_of

__all__ = ["history"]

#: The default ports: drivers on this machine may have taken the first one, which is Flink's.
_PORTS: Final = "8082-8181"


def history(
    directories: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIRECTORY]...",
            help="Checkpoint directories (execution.checkpointing.dir) or archive directories "
            "(jobmanager.archive.fs.dir). Default: historyserver.archive.fs.dir, else those of the configuration, else "
            "those of your drivers on this machine.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="The port to listen on. Default: historyserver.web.port, else the first free port from 8082.",
        ),
    ] = None,
    defined: Defined = None,
    config: ConfigFile = None,
) -> None:
    """Serve the web page and REST for jobs that have ended.

    Jobs write a record of themselves to a history: graph, epochs, checkpoints, exceptions, metrics, log and
    configuration. It remains when the driver has ended, even if it was killed. Nothing is changed here: records are
    deleted by the drivers of later jobs, as configured by historyserver.archive.retained-jobs and
    historyserver.archive.retained-ttl. This command ends when it is interrupted or terminated.
    """
    settings = configured(config, defined)
    with finding():
        found = [_history_in(one, settings) for one in directories] if directories else _configured(settings)
    _listen(settings, port)
    with until_ended() as wait:
        _serve(settings, found, wait)


def _configured(settings: Configuration) -> list[str]:
    """Return the directories of the configuration, or those that drivers on this machine have recorded."""
    shown = settings.get(HistoryOptions.SHOWN)
    if shown is not None:
        return [one.strip() for one in shown.split(",") if one.strip()]
    if settings.contains(HistoryOptions.DIRECTORY) or settings.contains(CheckpointingOptions.DIRECTORY):
        settings.set(HistoryOptions.ENABLED, True)
        return list(filter(None, [history_of(settings)]))
    recorded = [job.history for driver in drivers() for job in driver.jobs]
    found = list(dict.fromkeys(one for one in recorded if one is not None))
    if not found:
        raise NotThereError(
            "no driver on this machine has recorded a history: specify the checkpoint directory of your jobs, tidemill "
            "history DIRECTORY"
        )
    return found


def _history_in(directory: str, settings: Configuration) -> str:
    """Return the history in a checkpoint directory, or the directory itself if it contains records."""
    path = directory.rstrip("/")
    if ":" not in path.partition("/")[0]:
        if not Path(path).is_dir():
            raise NotThereError(f"there is no directory {directory}")
        path = str(Path(path).absolute())
    if path.rpartition("/")[2] == HISTORY_FOLDER:
        return path
    below = f"{path}/{HISTORY_FOLDER}"
    # Looked into first, because a checkpoint directory contains many other files.
    for one in (below, path):
        archive = HistoryFiles.at(one, settings)
        try:
            if archive.names():
                return one
        finally:
            archive.close()
    return below


def _listen(settings: Configuration, port: int | None) -> None:
    """Set where to listen: the options of the history server take precedence over those of drivers."""
    address = settings.get(HistoryOptions.ADDRESS)
    if address is not None:
        settings.set(RestOptions.BIND_ADDRESS, address)
    if port is None and settings.contains(HistoryOptions.PORT):
        port = settings.get(HistoryOptions.PORT)
    settings.set(RestOptions.BIND_PORT, _PORTS if port is None else str(port))
    settings.set(RestOptions.SUBMIT, False)
    serve_rest(settings)


def _serve(settings: Configuration, directories: list[str], wait: Callable[[], None]) -> None:
    """Serve until ``wait`` returns."""
    from tidemill.ops.rest.archived_jobs import ArchivedJobs
    from tidemill.ops.rest.server import RestServer, warn_of
    from tidemill.ops.rest.settings import RestSettings

    wanted = RestSettings.of(settings)
    tell_always(settings)
    jobs = ArchivedJobs(directories, settings)
    try:
        server = RestServer(wanted, None, jobs)
    except OSError as error:
        raise ConfigurationError(f"the history cannot be served: {error}") from error
    try:
        warn_of(server)
        where = settings.get(RestOptions.OPERATE_TOKEN)
        typer.echo(f"The history is at {server.url}; it requires the token in {where}")
        if is_attended(sys.stdout):
            typer.echo(f"The page: {page_address(RestAddress(server.url, where))}")
        wait()
    finally:
        server.close()
        jobs.close()
