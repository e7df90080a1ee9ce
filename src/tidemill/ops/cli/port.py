"""``tidemill port``: rewrite the imports of PyFlink programs, and report what of them works here."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidemill.ops.cli.arguments import AsJson
from tidemill.ops.cli.output import print_json
from tidemill.ops.porting.programs import PortedProgram, Verdict
from tidemill.ops.porting.programs import port as port_programs
from tidemill.ops.porting.report import as_json as program_as_json
from tidemill.ops.porting.report import as_text, summary

__all__ = ["port"]


def port(
    program: Annotated[
        Path, typer.Argument(metavar="PROGRAM|DIR", help="A PyFlink program, or a directory with some.")
    ],
    in_place: Annotated[bool, typer.Option("--in-place", "-i", help="Rewrite the imports in the files.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write the rewritten files to this directory."),
    ] = None,
    static: Annotated[
        bool, typer.Option("--static", help="Only analyse the programs; execute nothing of them.")
    ] = False,
    args: Annotated[
        str, typer.Option("--args", metavar="ARGUMENTS", help="Arguments of the programs, as in a shell.")
    ] = "",
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long a program may take. Default: 60.")
    ] = 60,
    check: Annotated[
        bool, typer.Option("--check", help="Show no changes; exit with 1 if a program cannot run yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite the imports of PyFlink programs, and report what of them works here.

    Without --in-place or --output, the changes are shown as a patch, and nothing is written. Of a directory, all Python
    files that import pyflink are ported.

    Each program is analysed, then compiled: it is executed in a process of its own, up to each job, which is compiled
    and not started. A program that you do not trust can do anything then: use --static for it.

    The report says of each program whether it runs as it is, runs with differences that matter, cannot run yet, or
    needs something to be compiled, such as a file, a service or arguments. Lines and advice follow.
    """
    if in_place and output is not None:
        raise typer.BadParameter("either rewrite the files in place, or write them to a directory", param_hint="'-i'")
    reports: list[PortedProgram] = []
    documents = []
    shows_changes = not (in_place or output or check or as_json)
    for report in port_programs(program, shlex.split(args), static=static, seconds=timeout):
        reports.append(report)
        written = _write(report, program, in_place, output)
        if as_json:
            documents.append(program_as_json(report, written))
            continue
        typer.echo(as_text(report))
        if written is not None:
            typer.echo(f"  written to {written}")
        if shows_changes:
            typer.echo(report.diff(), nl=False)
    if as_json:
        print_json({"programs": documents})
    else:
        typer.echo(summary(reports))
    if check and any(report.verdict is Verdict.MISSING for report in reports):
        raise typer.Exit(1)


def _write(report: PortedProgram, given: Path, in_place: bool, output: Path | None) -> Path | None:
    """Write a rewritten program, if this was requested, and return its new path."""
    source = report.source
    if source is None:
        return None
    if in_place:
        if not source.lines:
            return None
        target = report.path
    elif output is not None:
        target = output / (report.path.relative_to(given) if given.is_dir() else report.path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
    else:
        return None
    target.write_bytes(source.content)
    return target
