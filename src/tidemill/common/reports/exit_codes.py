"""Exit codes of a program. They indicate to a process manager whether to restart it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from enum import IntEnum

from tidemill.errors import LASTING, FencedError, JobCancelledError, SerializationError

__all__ = ["ExitCode", "exit_code_of", "run_main"]


class ExitCode(IntEnum):
    """Exit codes of a program.

    ``FINISHED``: its jobs finished or were cancelled deliberately. ``FAILED``: a restart resumes from the last
    committed epoch and may succeed; the same is true of any other termination (a signal, a lost machine). ``FENCED``:
    another driver runs the job; this one must not be restarted, or the two drivers would keep taking the job from each
    other. ``UNFIT``: a restart cannot help until the program, its configuration or its stored state is repaired.
    """

    FINISHED = 0
    FAILED = 1
    FENCED = 3
    UNFIT = 4


def exit_code_of(error: BaseException | None) -> ExitCode:
    """The exit code of a program that raised ``error``, or that ended normally if it is None.

    >>> exit_code_of(FencedError("another driver has the job")).name
    'FENCED'
    """
    if error is None or isinstance(error, JobCancelledError):
        return ExitCode.FINISHED
    if isinstance(error, FencedError):
        return ExitCode.FENCED
    return ExitCode.UNFIT if isinstance(error, (*LASTING, SerializationError)) else ExitCode.FAILED


def run_main(main: Callable[[], object]) -> ExitCode:
    """Run a program, print the traceback if it raises, and return the code for ``sys.exit``.

    >>> def main():
    ...     ...  # build a job, and env.execute() it
    >>> run_main(main).name  # sys.exit(run_main(main)) in a program
    'FINISHED'
    """
    try:
        main()
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return exit_code_of(error)
    return ExitCode.FINISHED
