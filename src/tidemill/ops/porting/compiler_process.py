"""Compiles the jobs of one program. This is the main program of a process that ``compiling.py`` starts.

What happens is written to the journal as it happens, one JSON document per line, because the program may end the
process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tidemill.common.job_client import JobClient
from tidemill.datastream.functions.user_line import find_user_line
from tidemill.datastream.program import execution
from tidemill.datastream.program.execution import JobProgram
from tidemill.ops.drivers.program import Program
from tidemill.ops.porting.compiled_job import CompiledJob
from tidemill.ops.porting.ending import End, HowEnded, ending_of
from tidemill.ops.porting.imports import ported

__all__ = ["main"]


class _Journal:
    """Records the jobs of the program, and how it ended."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root

    def compile(self, program: JobProgram) -> JobClient:
        """Compile a job instead of running it. An error in it is also raised in the program."""
        try:
            plan = execution.compile_program(program)
        except Exception as error:
            file, _, line = find_user_line().rpartition(":")  # the traceback does not reach up to the program yet
            end = replace(ending_of(error, self._root), how=HowEnded.FAILED, file=file, line=int(line or 0))
            self.put("refused", _as_json(end))
            raise
        self.put("job", {"name": program.name, "operators": sum(len(chain.operators) for chain in plan.chains)})
        return CompiledJob(program.name)

    def ended(self, error: BaseException | None) -> None:
        self.put("ended", _as_json(ending_of(error, self._root)))

    def put(self, event: str, what: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **what}) + "\n")


class _PortingLoader(SourceFileLoader):
    """Loads a module with its imports rewritten. Compiled files of the original module are not used."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = compile(ported(self.get_data(path), path).text, path, "exec", dont_inherit=True)
        return code


class _PortingFinder(MetaPathFinder):
    """Finds modules in the directory of the program."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            origin = Path(spec.origin).resolve()
            if self._root in origin.parents and "site-packages" not in origin.parts:
                spec.loader = _PortingLoader(fullname, spec.origin)
        return spec


def _as_json(end: End) -> dict[str, Any]:
    return {**asdict(end), "how": end.how.value}


def _read(path: Path) -> bytes:
    return ported(path.read_bytes(), str(path)).text.encode()


def main(journal_path: str, root: str, program: str, *arguments: str) -> None:
    """Run a program with its imports rewritten, and compile its jobs."""
    directory = Path(root).resolve()
    journal = _Journal(Path(journal_path), directory)
    sys.meta_path.insert(0, _PortingFinder(directory))
    ended: BaseException | None = None
    with execution.handing_over(journal.compile):
        try:
            Program(program, arguments).run(_read)
        except BaseException as error:
            ended = error
    journal.ended(ended)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of the program may still be running
