"""Ports programs: rewrites their imports, analyses and compiles them, and reports on each.

1. Find the Python files below a directory that import PyFlink.
2. Rewrite their imports (:mod:`tidemill.ops.porting.imports`).
3. Analyse them (:mod:`tidemill.ops.porting.analysis`).
4. Compile the jobs of those that have any (:mod:`tidemill.ops.porting.compiling`).
5. Judge each from its findings and from what was compiled.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from tidemill.ops.errors import NotThereError
from tidemill.ops.porting.analysis import analysed
from tidemill.ops.porting.compiling import Compiled, CompiledJobs, compiled
from tidemill.ops.porting.ending import End, HowEnded
from tidemill.ops.porting.findings import Remark, Weight
from tidemill.ops.porting.imports import PortedSource, ported

__all__ = ["PortedProgram", "Verdict", "port", "python_files"]

#: Directories that hold other people's code.
_FOREIGN: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
#: Methods that only programs call, not the modules that they import.
_EXECUTING: Final = frozenset({"execute", "execute_async", "execute_and_collect", "get_execution_environment"})
#: Programs that are compiled at the same time.
_PROCESSES: Final = 4


class Verdict(Enum):
    """What happens to a program here."""

    RUNS = "runs"
    #: It runs; some of its results or behaviour can differ.
    DIFFERS = "differs"
    #: It cannot run before something is changed.
    MISSING = "missing"
    #: It could not be compiled, because something outside of it is not there. No statement about the rest.
    NEEDS = "needs"
    #: It has no job of its own.
    MODULE = "module"


@dataclass(frozen=True)
class PortedProgram:
    """A program with its imports rewritten, and what was found. ``jobs`` is None if it was not compiled."""

    path: Path
    verdict: Verdict
    findings: tuple[Remark, ...]
    jobs: tuple[Compiled, ...] | None = None
    needs: End | None = None
    source: PortedSource | None = None

    def diff(self) -> str:
        """The rewritten lines as a patch."""
        if self.source is None or not self.source.lines:
            return ""
        before = self.path.read_bytes().decode(self.source.encoding).splitlines(keepends=True)
        after = self.source.text.splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, str(self.path), str(self.path), n=0))


def port(path: Path, arguments: Sequence[str], *, static: bool, seconds: float) -> Iterator[PortedProgram]:
    """Port a program, or the programs below a directory. With ``static``, none of their code is executed.

    Yields them in the order of their paths. Raises :class:`NotThereError` if there are none.
    """
    root = (path if path.is_dir() else path.parent).resolve()
    files = python_files(path) if path.is_dir() else [path]
    if not path.exists():
        raise NotThereError(f"{path} does not exist")

    def examine(file: Path) -> PortedProgram | None:
        return _examined(file, path != file, None if static else lambda: compiled(file, root, arguments, seconds))

    found = 0
    with ThreadPoolExecutor(min(_PROCESSES, os.cpu_count() or 1)) as pool:
        for program in pool.map(examine, files):
            if program is not None:
                found += 1
                yield program
    if not found:
        raise NotThereError(f"no Python file in {path} imports pyflink")


def _examined(file: Path, of_directory: bool, compile_it: Callable[[], CompiledJobs] | None) -> PortedProgram | None:
    """Examine a program. Returns None for a file of a directory that has nothing to do with PyFlink."""
    try:
        source = ported(file.read_bytes(), str(file))
    except SyntaxError as error:
        if of_directory and b"pyflink" not in file.read_bytes():
            return None
        invalid = Remark(error.lineno or 0, "syntax", Weight.MISSING, f"not a program of this Python: {error.msg}")
        return PortedProgram(file, Verdict.MISSING, (invalid,))
    if of_directory and not source.lines:
        return None
    program = PortedProgram(file, Verdict.MODULE, tuple(analysed(source)), source=source)
    if compile_it is not None and (not of_directory or _may_execute(source.tree)):
        program = _with_jobs(program, compile_it())
    return replace(program, verdict=_judged(program, _may_execute(source.tree)))


def _with_jobs(program: PortedProgram, outcome: CompiledJobs) -> PortedProgram:
    """Add what was compiled, and why not, to the findings of the analysis."""
    end = outcome.end
    found = list(program.findings)
    needs = None
    errors = list(outcome.refused)
    if outcome.jobs and end.how is not HowEnded.NORMALLY and end not in outcome.refused:
        text = (
            f"{end.text} (after {len(outcome.jobs)} of its jobs was compiled: nothing runs here, so results are empty)"
        )
        found.append(Remark(end.line, "program", Weight.NOTE, text, _file_of(end, program)))
    elif end.how is HowEnded.FAILED and end not in outcome.refused:
        errors.append(end)
    elif end.how in (HowEnded.NEEDS, HowEnded.TIMEOUT):
        needs = end
    missing = {(one.line, one.file) for one in found if one.kind is Weight.MISSING}
    for error in errors:
        file = _file_of(error, program)
        if (error.line, file) not in missing:
            found.append(Remark(error.line, "program", Weight.MISSING, error.text, file))
            missing.add((error.line, file))
    found.sort(key=lambda one: (one.file, one.line))
    return replace(program, findings=tuple(found), jobs=outcome.jobs, needs=needs)


def _judged(program: PortedProgram, may_execute: bool) -> Verdict:
    kinds = {one.kind for one in program.findings}
    if Weight.MISSING in kinds:
        return Verdict.MISSING
    if program.needs is not None:
        return Verdict.NEEDS
    if not program.jobs and (program.jobs is not None or not may_execute):
        return Verdict.MODULE
    return Verdict.DIFFERS if Weight.DIFFERS in kinds else Verdict.RUNS


def _file_of(end: End, program: PortedProgram) -> str:
    """The file of a finding that is not in the program itself."""
    return "" if not end.file or Path(end.file).resolve() == program.path.resolve() else end.file


def python_files(root: Path) -> list[Path]:
    """The Python files below a directory, in the order of their paths, except those of other projects."""
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = [name for name in folders if not _is_foreign(here / name)]
        found += [here / name for name in names if name.endswith(".py")]
    return sorted(found)


def _is_foreign(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in _FOREIGN or (folder / "pyvenv.cfg").exists()


def _may_execute(tree: ast.Module) -> bool:
    """Whether a file may be a program, and not only a module of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _EXECUTING:
            return True
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return True
    return False
