"""Describes how a program ended that was compiled: normally, for lack of something, or with an error."""

from __future__ import annotations

import linecache
import os
import socket
import traceback
import urllib.error
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tidemill.errors import ConnectorError
from tidemill.ops.porting.imports import FROM, TO

__all__ = ["End", "HowEnded", "ending_of"]


class HowEnded(Enum):
    """How a program ended."""

    NORMALLY = "normally"
    #: It lacks something that is not part of it: a file, a service, an argument, a package.
    NEEDS = "needs"
    FAILED = "failed"
    #: It was still running when its time was over.
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class End:
    """How a program ended, why, and the last line of its code that was involved. Line 0 is unknown."""

    how: HowEnded
    text: str = ""
    line: int = 0
    file: str = ""


#: The exit code of argparse and click for arguments that are missing or wrong.
_USAGE: Final = 2
#: Ends of names of exceptions by which clients report that a service cannot be reached.
_UNREACHABLE: Final = ("ConnectionError", "ConnectError", "OperationalError", "NoBrokersAvailable", "TimeoutError")
_UNREACHABLE_TYPES: Final = (ConnectorError, ConnectionError, TimeoutError, socket.gaierror, urllib.error.URLError)


def ending_of(error: BaseException | None, root: Path) -> End:
    """How a program ended that raised ``error``, or returned. Its code is in the directory ``root``."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return End(HowEnded.NORMALLY)
    file, line = _last_place(error, root)
    chain = _causes(error)
    need = next(filter(None, (_need(one, file, line) for one in chain)), None)
    if need is not None:
        return End(HowEnded.NEEDS, need, line, file)
    if isinstance(error, SystemExit):
        return End(HowEnded.FAILED, f"the program ended with {error.code!r}", line, file)
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return End(HowEnded.FAILED, f"{type(error).__name__}: {error.msg}", error.lineno, error.filename or file)
    first_line = str(error).strip().partition("\n")[0]
    return End(
        HowEnded.FAILED, f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__, line, file
    )


def _need(error: BaseException, file: str, line: int) -> str | None:
    """What a program lacks that fails with this error, or None if the cause is another."""
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        return None if missing in (FROM, TO, "") else f"the module {missing}, which is not installed here"
    if isinstance(error, _UNREACHABLE_TYPES) or type(error).__name__.endswith(_UNREACHABLE):
        return f"a service: {_shown(error)}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"the file {error.filename}: {error.strerror}"
    if isinstance(error, EOFError):
        return "input from a terminal"
    if isinstance(error, KeyError) and _raised_in(error) == os.__file__:
        return f"the environment variable {error.args[0]}"
    if isinstance(error, SystemExit) and error.code == _USAGE:
        return "arguments"
    if isinstance(error, IndexError) and "argv" in linecache.getline(file, line):
        return "arguments"
    return None


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while (cause := found[-1].__cause__) is not None and cause not in found:
        found.append(cause)
    return found


def _last_place(error: BaseException, root: Path) -> tuple[str, int]:
    """The last line of the program's own code in the traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if root in path.absolute().parents and "site-packages" not in path.parts:
            return frame.filename, frame.lineno or 0
    return "", 0


def _raised_in(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return _plain(frames[-1].filename) if frames else ""


def _plain(file: str) -> str:
    """The file of a frame. Modules that are frozen into the interpreter have another name in tracebacks."""
    return os.__file__ if file == "<frozen os>" else file
