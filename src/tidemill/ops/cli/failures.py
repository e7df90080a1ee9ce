"""Failures of commands: an error message of one or two lines, and an exit code that indicates the cause."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from tidemill.common.reports.exit_codes import ExitCode, exit_code_of
from tidemill.errors import CheckpointError, NoSavepointError, StateError, TidemillError
from tidemill.ops.errors import NotThereError

__all__ = ["CommandExit", "Verbs", "ended_with", "finding"]


#: The base class of errors in a command line. Typer has its own copy of it, without a public name.
_UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]
#: Directory of Tidemill's own stack frames: the command line, and the code that runs programs.
_OURS: Final = str(Path(__file__).parents[1])


class CommandExit(IntEnum):
    """Exit codes in addition to those of a program (:class:`~tidemill.common.reports.exit_codes.ExitCode`)."""

    USAGE = 2
    NOT_FOUND = 5
    INTERRUPTED = 130


@contextmanager
def finding() -> Iterator[None]:
    """Convert the errors for a job, epoch or state that does not exist to :class:`NotThereError`."""
    try:
        yield
    except (CheckpointError, StateError) as error:
        # Their other subclasses report damaged or foreign data, which is not the same as missing data.
        if type(error) in (CheckpointError, NoSavepointError, StateError):
            raise NotThereError(str(error)) from error
        raise


class Verbs(TyperGroup):
    """A group of commands that reports errors as a message and an exit code."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except _UsageError as error:
            if _is_help(error):
                raise
            typer.echo(f"error: {_usage_message(error, info_name or '')}", err=True)
            raise typer.Exit(CommandExit.USAGE) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            if _is_help(error):
                raise
            code: int = CommandExit.USAGE
            message = _usage_message(error, ctx.command_path)
        except NotThereError as error:
            code = CommandExit.NOT_FOUND
            message = str(error)
        except TidemillError as error:
            code = exit_code_of(error)
            message = str(error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # the reader has closed the pipe, as 'head' does
            code = ExitCode.FAILED
            message = ": ".join(filter(None, [error.filename, error.strerror])) or str(error)
        except KeyboardInterrupt:
            code, message = CommandExit.INTERRUPTED, "interrupted"
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(int(code))


def _is_help(error: Exception) -> bool:
    """Whether an error only stands for the help of a group without a command."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _usage_message(error: Any, command: str) -> str:
    """Return an error of the argument parser in the style of the others: without a capital and a full stop."""
    text = str(error.format_message()).rstrip(".")
    path = error.ctx.command_path if error.ctx is not None else command
    return f"{text[:1].lower()}{text[1:]}; see '{path} -h'"


def ended_with(error: BaseException) -> int:
    """Print the error with which a program ended, and return its exit code.

    The traceback contains only frames of user code, not Tidemill's own. An error raised by Tidemill is printed without
    a traceback: its message explains what happened, and includes the traceback of a failed user function.
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
        typer.echo(f"error: {type(error).__name__}: {error}", err=True)
    else:
        told = traceback.TracebackException.from_exception(error)
        told.stack = traceback.StackSummary.from_list(
            [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
        )
        typer.echo("".join(told.format()), err=True, nl=False)
    return CommandExit.NOT_FOUND if isinstance(error, NotThereError) else exit_code_of(error)
