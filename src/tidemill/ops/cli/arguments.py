"""Arguments and options that several commands share, and how they are resolved."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidemill.checkpoint.names import MANIFESTS
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, PipelineOptions, RestOptions
from tidemill.config.unknown_keys import unknown_keys
from tidemill.datastream.environment.outer_configuration import CONFIGURATION_FILE
from tidemill.errors import ConfigurationError
from tidemill.ops.cli.failures import finding
from tidemill.ops.drivers.records import driver_of, drivers, records_directory
from tidemill.ops.errors import NotThereError

if TYPE_CHECKING:
    from tidemill.state_processor import SavepointReader

__all__ = [
    "REST_PORTS",
    "AllowPickle",
    "AsJson",
    "Authority",
    "ConfigFile",
    "Defined",
    "Epoch",
    "Identity",
    "JobArgument",
    "RestUrl",
    "RunningJob",
    "Token",
    "configured",
    "known_jobs",
    "location_of",
    "open_reader",
    "serve_rest",
]

#: Default ports of drivers started by 'tidemill run'. A range, because several drivers may run on one machine.
REST_PORTS: Final = "8081-8180"
_CHECKPOINT: Final = re.compile(r"(.+)/chk-(\d+)/?")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Defined = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="Set a configuration option. Can be repeated."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar=CONFIGURATION_FILE, help="A YAML file of configuration options."),
]
Epoch = Annotated[int | None, typer.Option("--epoch", "-e", min=0, help="A committed epoch. Default: the latest.")]
AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Unpickle pickled state. Use only with files that you trust."),
]


def known_jobs() -> list[str]:
    """Return the ids of the jobs of running drivers, for shell completion."""
    return [job.id for driver in drivers() if driver.alive for job in driver.jobs]


def recorded_jobs() -> list[str]:
    """Return the ids of the jobs whose committed state can be read by id, running or not, for shell completion."""
    return list(dict.fromkeys(job.id for driver in drivers() for job in driver.jobs if job.directory is not None))


JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A job id (in execution.checkpointing.dir, or of a driver on this machine), or the directory or URI of a "
        "job, of one of its checkpoints (…/chk-7), or of a savepoint.",
        autocompletion=recorded_jobs,
    ),
]


RunningJob = Annotated[
    str, typer.Argument(metavar="JOB", help="A job id or a prefix of it.", autocompletion=known_jobs)
]


RestUrl = Annotated[
    str | None,
    typer.Option(
        "-m", "--rest", metavar="URL", help="The REST address of a driver that 'tidemill list' does not show."
    ),
]
Token = Annotated[
    str | None, typer.Option("--token", metavar="WHERE", help="Location of its token: env:NAME or file:PATH.")
]
Authority = Annotated[
    str | None,
    typer.Option("--cacert", metavar="FILE", help="Certificate authority to trust in addition to the defaults (PEM)."),
]
Identity = Annotated[
    str | None,
    typer.Option(
        "--cert",
        metavar="FILE",
        envvar="TIDEMILL_CERT",
        help="Client certificate with its key (PEM), if the driver requires one. Default: TIDEMILL_CERT.",
    ),
]


def configured(config: Path | None, defined: list[str] | None, *, warn: bool = True) -> Configuration:
    """Return the configuration of ``--config`` and ``-D``; the latter takes precedence.

    ``warn`` reports unknown keys. The commands that run a program leave this to its environment.
    """
    configuration = Configuration() if config is None else Configuration.load_yaml(config)
    for pair in defined or ():
        key, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{pair!r} is not of the form KEY=VALUE", param_hint="'-D'")
        configuration.set_string(key.strip(), value.strip())
    for message in unknown_keys(configuration.key_set()) if warn else ():
        if configuration.get(PipelineOptions.STRICT_CONFIGURATION):
            raise ConfigurationError(message)
        typer.echo(f"warning: {message}", err=True)
    return configuration


def serve_rest(settings: Configuration) -> None:
    """Set the defaults of the REST server: enabled, at the first free port, accessible only by this user."""
    if not settings.contains(RestOptions.ENABLED):
        settings.set(RestOptions.ENABLED, True)
    if not (settings.contains(RestOptions.PORT) or settings.contains(RestOptions.BIND_PORT)):
        settings.set(RestOptions.BIND_PORT, REST_PORTS)
    if not settings.contains(RestOptions.OPERATE_TOKEN):
        # Other users of the machine can reach the port too.
        settings.set(RestOptions.OPERATE_TOKEN, f"file:{records_directory() / 'rest-token'}")


def location_of(job: str, configuration: Configuration) -> str:
    """Return the location of a job or savepoint.

    This is the given path, a directory in ``execution.checkpointing.dir``, or the directory that the driver recorded.
    """
    path = Path(job)
    if "/" in job or _holds_state(path):
        return job
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    if directory is not None:
        return f"{directory.rstrip('/')}/{job}"
    with contextlib.suppress(NotThereError):
        noted = driver_of(job)[1].directory
        if noted is not None:
            return noted
    if path.exists():
        return job
    raise NotThereError(
        f"there is no directory {job!r} here, and no driver on this machine has recorded the checkpoint directory of a "
        f"job {job!r}: specify it with -D execution.checkpointing.dir=…"
    )


def _holds_state(path: Path) -> bool:
    """Whether a directory contains a job, several jobs, or a savepoint. Other directories may have a job's name too."""
    if not path.is_dir():
        return False
    from tidemill.checkpoint.savepoint import METADATA  # imports Arrow, which most commands do not need

    return (path / METADATA).exists() or any((one / MANIFESTS).is_dir() for one in (path, *path.iterdir()))


def open_reader(
    job: str, epoch: int | None, configuration: Configuration, *, allow_pickle: bool = False
) -> SavepointReader:
    """Open the committed state that a command refers to. Raises :class:`NotThereError` if it does not exist."""
    location = location_of(job, configuration)
    if (checkpoint := _CHECKPOINT.fullmatch(location)) is not None:
        location, epoch = checkpoint[1], int(checkpoint[2]) if epoch is None else epoch
    if ":" not in location.partition("/")[0] and not Path(location).is_dir():
        raise NotThereError(f"{location} does not exist: it is neither a job nor a savepoint")
    from tidemill.state_processor import read

    with finding():
        return read(location, epoch, allow_pickle=allow_pickle, configuration=configuration)
