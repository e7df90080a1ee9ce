"""Arguments and options that several commands have, and what they mean together."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidemill.checkpoint.names import MANIFESTS
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, RestOptions
from tidemill.datastream.environment.outer_configuration import CONFIGURATION_FILE
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
    "open_state",
    "serve_rest",
]

#: Where drivers listen that 'tidemill run' starts, if nothing is said: several run on one machine.
REST_PORTS: Final = "8081-8180"
_CHECKPOINT: Final = re.compile(r"(.+)/chk-(\d+)/?")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Defined = Annotated[
    list[str] | None,
    typer.Option("-D", metavar="KEY=VALUE", help="Set a configuration option; may be given several times."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar=CONFIGURATION_FILE, help="A YAML file of configuration options."),
]
Epoch = Annotated[int | None, typer.Option("--epoch", "-e", min=0, help="A committed epoch; by default the last one.")]
AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", help="Unpickle what is stored as pickles: only for files that you trust."),
]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A job's id (below execution.checkpointing.dir, or of a driver of this machine), or the directory or URI "
        "of a job, of one of its checkpoints (…/chk-7), or of a savepoint.",
    ),
]


def known_jobs() -> list[str]:
    """For the shell: the jobs of drivers that live."""
    return [job.id for driver in drivers() if driver.alive for job in driver.jobs]


RunningJob = Annotated[
    str, typer.Argument(metavar="JOB", help="A job's id, or the beginning of it.", autocompletion=known_jobs)
]


RestUrl = Annotated[
    str | None,
    typer.Option(
        "-m", "--rest", metavar="URL", help="The REST address of a driver that 'tidemill list' does not know."
    ),
]
Token = Annotated[
    str | None, typer.Option("--token", metavar="WHERE", help="Where its token is: env:NAME or file:PATH.")
]
Authority = Annotated[
    str | None,
    typer.Option("--cacert", metavar="FILE", help="Whose certificate to believe beside the usual ones' (PEM)."),
]
Identity = Annotated[
    str | None,
    typer.Option(
        "--cert",
        metavar="FILE",
        envvar="TIDEMILL_CERT",
        help="The certificate to show, with its key (PEM), if the driver wants one; else that of TIDEMILL_CERT.",
    ),
]


def configured(config: Path | None, defined: list[str] | None) -> Configuration:
    """What the options ``--config`` and ``-D`` say; the latter have precedence."""
    configuration = Configuration() if config is None else Configuration.load_yaml(config)
    for pair in defined or ():
        key, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{pair!r} is not of the form KEY=VALUE", param_hint="'-D'")
        configuration.set_string(key.strip(), value.strip())
    return configuration


def serve_rest(settings: Configuration) -> None:
    """Have REST served as it is if nothing is said: at the first free port, to its user alone."""
    if not settings.contains(RestOptions.ENABLED):
        settings.set(RestOptions.ENABLED, True)
    if not (settings.contains(RestOptions.PORT) or settings.contains(RestOptions.BIND_PORT)):
        settings.set(RestOptions.BIND_PORT, REST_PORTS)
    if not settings.contains(RestOptions.OPERATE_TOKEN):
        # Other users of the machine reach the port too.
        settings.set(RestOptions.OPERATE_TOKEN, f"file:{records_directory() / 'rest-token'}")


def location_of(job: str, configuration: Configuration) -> str:
    """Where a job, or a savepoint, is: as given, below ``execution.checkpointing.dir``, or as its driver has noted."""
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
        f"there is no directory {job!r} here, and no driver of this machine has noted where a job {job!r} keeps its "
        "checkpoints: say it with -D execution.checkpointing.dir=…"
    )


def _holds_state(path: Path) -> bool:
    """Whether a directory is that of a job, of several, or of a savepoint; others may have the name of a job, too."""
    if not path.is_dir():
        return False
    from tidemill.checkpoint.savepoint import METADATA  # with Arrow, which most commands do not need

    return (path / METADATA).exists() or any((one / MANIFESTS).is_dir() for one in (path, *path.iterdir()))


def open_state(
    job: str, epoch: int | None, configuration: Configuration, *, allow_pickle: bool = False
) -> SavepointReader:
    """The committed state that a command is about. Raises :class:`NotThereError` if it is not there."""
    location = location_of(job, configuration)
    if (checkpoint := _CHECKPOINT.fullmatch(location)) is not None:
        location, epoch = checkpoint[1], int(checkpoint[2]) if epoch is None else epoch
    if ":" not in location.partition("/")[0] and not Path(location).is_dir():
        raise NotThereError(f"{location} is not there: neither a job nor a savepoint")
    from tidemill.state_processor import read

    with finding():
        return read(location, epoch, allow_pickle=allow_pickle, configuration=configuration)
