"""How a command ends when it cannot do what it was asked: one or two lines, and a code that tells why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from tidemill.common.exit_codes import exit_code_of
from tidemill.errors import CheckpointError, StateError, TidemillError

__all__ = ["CommandExit", "NotThereError", "Verbs", "finding"]


class CommandExit(IntEnum):
    """Exit codes beside those of a program (:class:`~tidemill.common.exit_codes.ExitCode`)."""

    USAGE = 2
    NOT_FOUND = 5
    INTERRUPTED = 130


class NotThereError(TidemillError):
    """The job, savepoint, epoch, operator, state or key that a command is about is not there."""


@contextmanager
def finding() -> Iterator[None]:
    """Turns what is raised for a job, epoch or state that is not there into :class:`NotThereError`."""
    try:
        yield
    except (CheckpointError, StateError) as error:
        # Those below it say that something is damaged, or foreign: that is not the same as not there.
        if type(error) in (CheckpointError, StateError):
            raise NotThereError(str(error)) from error
        raise


class Verbs(TyperGroup):
    """The commands; a :class:`TidemillError` of one of them becomes a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NotThereError as error:
            code: int = CommandExit.NOT_FOUND
            message = str(error)
        except TidemillError as error:
            code = exit_code_of(error)
            message = str(error)
        except KeyboardInterrupt:
            code, message = CommandExit.INTERRUPTED, "interrupted"
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(int(code))
