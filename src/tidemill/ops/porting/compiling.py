"""Compiles the jobs of a program in a process of its own. The program runs, but none of its jobs does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidemill.ops.porting.ending import End, HowEnded

__all__ = ["Compiled", "CompiledJobs", "compiled"]

#: Files in the current directory must not hide modules of the standard library.
_MAIN: Final = """
import sys
sys.path[:] = filter(None, sys.path)
from tidemill.ops.porting.compiler_process import main
main(*sys.argv[1:])
"""


@dataclass(frozen=True)
class Compiled:
    """A job of a program that was compiled."""

    name: str
    operators: int


@dataclass(frozen=True)
class CompiledJobs:
    """What became of the jobs of a program, in their order, and how the program ended.

    ``refused`` are those that cannot be compiled, also if the program handled the error.
    """

    jobs: tuple[Compiled, ...]
    refused: tuple[End, ...]
    end: End


def compiled(program: Path, root: Path, arguments: Sequence[str], seconds: float) -> CompiledJobs:
    """Run a program up to its end, or for at most ``seconds``, and compile its jobs.

    The program runs in the current directory, with its own directory in the path, without a terminal. Its modules in
    the directory ``root`` are rewritten like the program.
    """
    with tempfile.TemporaryDirectory(prefix="tidemill-port-") as folder:
        journal, errors = Path(folder) / "journal", Path(folder) / "errors"
        journal.touch()
        command = [sys.executable, "-c", _MAIN, str(journal), str(root), str(program), *arguments]
        with errors.open("wb") as stderr:
            code = _run(command, stderr, seconds)
        events = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
        said = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return _outcome(events, code, seconds, said)


def _run(command: list[str], stderr: Any, seconds: float) -> int | None:
    """Run a command, and end it with all its children when the time is over. Returns None in this case."""
    process = subprocess.Popen(  # noqa: S603 - the command is ours; what it runs was named by the user
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of its processes have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outcome(events: list[dict[str, Any]], code: int | None, seconds: float, said: list[str]) -> CompiledJobs:
    jobs = tuple(Compiled(one["name"], one["operators"]) for one in events if one["event"] == "job")
    refused = tuple(_end(one) for one in events if one["event"] == "refused")
    ends = [_end(one) for one in events if one["event"] == "ended"]
    if ends:
        end = ends[-1]
        if end.how is HowEnded.NEEDS and end.text == "arguments" and said:
            end = End(end.how, f"arguments: {said[-1].strip()}", end.line, end.file)
    elif code is None:
        end = End(HowEnded.TIMEOUT, f"still running after {seconds:g} seconds")
    else:
        end = End(HowEnded.FAILED, f"the process ended with exit code {code}{': ' + said[-1] if said else ''}")
    return CompiledJobs(jobs, refused, end)


def _end(event: dict[str, Any]) -> End:
    return End(HowEnded(event["how"]), event["text"], event["line"], event["file"])
