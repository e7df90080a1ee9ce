"""The report of ``tidemill port``, as text and as a JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidemill.ops.porting.findings import Remark
from tidemill.ops.porting.programs import PortedProgram, Verdict

__all__ = ["as_json", "as_text", "summary"]

_WORDS = {
    Verdict.RUNS: "runs as it is",
    Verdict.DIFFERS: "runs, with differences",
    Verdict.MISSING: "cannot run yet",
    Verdict.NEEDS: "not compiled: it needs",
    Verdict.MODULE: "has no job",
}
_COUNTED = {
    Verdict.RUNS: "run as they are",
    Verdict.DIFFERS: "run with differences",
    Verdict.MISSING: "cannot run yet",
    Verdict.NEEDS: "need something to be compiled",
    Verdict.MODULE: "have no job",
}


def as_text(program: PortedProgram) -> str:
    """A program in some lines: the verdict, then each finding with its line."""
    return "\n".join([f"{program.path}: {_verdict(program)}", *(f"  {_shown(one)}" for one in program.findings)])


def summary(programs: Sequence[PortedProgram]) -> str:
    """How many programs have each verdict.

    >>> summary([PortedProgram(Path("a.py"), Verdict.RUNS, ())] * 2)
    '2 files: 2 run as they are'
    """
    counts = Counter(program.verdict for program in programs)
    parts = [f"{counts[verdict]} {words}" for verdict, words in _COUNTED.items() if counts[verdict]]
    return f"{len(programs)} file{'s' if len(programs) != 1 else ''}: {', '.join(parts)}"


def as_json(program: PortedProgram, written: Path | None) -> dict[str, Any]:
    """A program as a JSON object."""
    return {
        "program": str(program.path),
        "verdict": program.verdict.value,
        "rewritten_lines": [] if program.source is None else list(program.source.lines),
        "written": None if written is None else str(written),
        "jobs": None
        if program.jobs is None
        else [{"name": job.name, "operators": job.operators} for job in program.jobs],
        "needs": None
        if program.needs is None
        else {"text": program.needs.text, "line": program.needs.line, "file": program.needs.file},
        "findings": [
            {"line": one.line, "file": one.file, "kind": one.kind.value, "name": one.name, "text": one.text}
            for one in program.findings
        ],
    }


def _verdict(program: PortedProgram) -> str:
    words = _WORDS[program.verdict]
    if program.verdict is Verdict.NEEDS and program.needs is not None:
        where = f" ({_place(program.needs.line, program.needs.file)})" if program.needs.line else ""
        return f"{words} {program.needs.text}{where}"
    if program.jobs:
        operators = sum(job.operators for job in program.jobs)
        jobs = f"{len(program.jobs)} job{'s' if len(program.jobs) != 1 else ''}"
        return f"{words} ({jobs}, {operators} operators)"
    return words


def _shown(finding: Remark) -> str:
    where = f"{_place(finding.line, finding.file)}: " if finding.line else ""
    return f"{where}{finding.kind.value}: {finding.name}: {finding.text}"


def _place(line: int, file: str) -> str:
    return f"{file}:{line}" if file else f"line {line}"
