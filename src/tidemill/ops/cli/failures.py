"""How a command ends when it cannot do what it was asked: one or two lines, and a code that tells why."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from tidemill.common.exit_codes import ExitCode, exit_code_of
from tidemill.errors import CheckpointError, NoSavepointError, StateError, TidemillError
from tidemill.ops.errors import NotThereError

__all__ = ["CommandExit", "Verbs", "ended_with", "finding"]


#: Where our own frames lie, those of the command line and of what runs programs.
_OURS: Final = str(Path(__file__).parents[1])


class CommandExit(IntEnum):
    """Exit codes beside those of a program (:class:`~tidemill.common.exit_codes.ExitCode`)."""

    USAGE = 2
    NOT_FOUND = 5
    INTERRUPTED = 130


@contextmanager
def finding() -> Iterator[None]:
    """Turns what is raised for a job, epoch or state that is not there into :class:`NotThereError`."""
    try:
        yield
    except (CheckpointError, StateError) as error:
        # The other ones below them say that something is damaged, or foreign: that is not the same as not there.
        if type(error) in (CheckpointError, NoSavepointError, StateError):
            raise NotThereError(str(error)) from error
        raise


class Verbs(TyperGroup):
    """The commands. What goes wrong for one of them, be it with a job or a disk, becomes a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NotThereError as error:
            code: int = CommandExit.NOT_FOUND
            message = str(error)
        except TidemillError as error:
            code = exit_code_of(error)
            message = str(error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # who reads has had enough, as 'head' has
            code = ExitCode.FAILED
            message = ": ".join(filter(None, [error.filename, error.strerror])) or str(error)
        except KeyboardInterrupt:
            code, message = CommandExit.INTERRUPTED, "interrupted"
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(int(code))


def ended_with(error: BaseException) -> int:
    """Tell a person what a program ended with, and return its exit code. The user's own traceback is shown; ours never.

    What Tidemill raises says itself what happened, and has the traceback of a user's function in it.
    """
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        typer.echo(str(error.code), err=True)
        return 1
    if isinstance(error, KeyboardInterrupt):
        typer.echo("interrupted: the job was cancelled", err=True)
        return CommandExit.INTERRUPTED
    if isinstance(error, TidemillError):
        typer.echo(f"{type(error).__name__}: {error}", err=True)
    else:
        told = traceback.TracebackException.from_exception(error)
        told.stack = traceback.StackSummary.from_list(
            [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
        )
        typer.echo("".join(told.format()), err=True, nl=False)
    return CommandExit.NOT_FOUND if isinstance(error, NotThereError) else exit_code_of(error)
