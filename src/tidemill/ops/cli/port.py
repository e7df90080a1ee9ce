"""``tidemill port``: rewrite the imports of PyFlink programs, and report what of them works here."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from tidemill.ops.cli.arguments import AsJson
from tidemill.ops.cli.output import print_json
from tidemill.ops.porting.programs import PortedProgram, Verdict, python_files
from tidemill.ops.porting.programs import port as port_programs
from tidemill.ops.porting.report import as_json as program_as_json
from tidemill.ops.porting.report import as_text, summary

__all__ = ["port"]


def port(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A PyFlink program, or a directory.", show_default=False)
    ],
    in_place: Annotated[bool, typer.Option("--in-place", "-i", help="Rewrite the imports in the files.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write the Python files to this directory, with rewritten imports."
        ),
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Only analyse programs; do not execute them.")] = False,
    args: Annotated[
        str, typer.Option("--args", metavar="ARGUMENTS", help="Arguments of the programs, quoted as in a shell.")
    ] = "",
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long a program may take. Default: 60.")
    ] = 60,
    check: Annotated[
        bool, typer.Option("--check", help="Do not show the changes; exit with 1 if a program cannot run yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite the imports of PyFlink programs, and report what of them works here.

    Without --in-place or --output, the changes are shown as a patch, and nothing is written. In a directory, all Python
    files that import pyflink are ported.

    Each program is analysed, then compiled: it is executed in a process of its own, in which jobs are compiled instead
    of started. Everything else that the program does happens: use --static for programs that you do not trust.

    The report states for each program whether it runs as it is, runs with differences that matter, cannot run yet, or
    needs something to be compiled, such as a file, a service or arguments, and names the lines.
    """
    arguments = _arguments(args)
    if in_place and output is not None:
        raise typer.BadParameter("either rewrite the files in place, or write them to a directory", param_hint="'-i'")
    if output is not None and output.resolve() == (path if path.is_dir() else path.parent).resolve():
        raise typer.BadParameter("this is the directory of the programs: use --in-place", param_hint="'-o'")
    reports: list[PortedProgram] = []
    documents = []
    shows_changes = not (in_place or output or check or as_json)
    for report in port_programs(path, arguments, static=static, seconds=timeout):
        reports.append(report)
        written = _written(report, path, in_place, output)
        if as_json:
            documents.append(program_as_json(report, written))
            continue
        typer.echo(as_text(report))
        if written is not None:
            typer.echo(f"  written to {written}")
        if shows_changes:
            typer.echo(report.diff(), nl=False)
    if output is not None and path.is_dir():
        _copy_others(path, output, {report.path for report in reports})
    if as_json:
        print_json({"programs": documents})
    else:
        typer.echo(summary(reports))
    if check and any(report.verdict is Verdict.MISSING for report in reports):
        raise typer.Exit(1)


def _arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="'--args'") from error


def _written(report: PortedProgram, given: Path, in_place: bool, output: Path | None) -> Path | None:
    """Write a rewritten program, if this was requested, and return its new path."""
    if report.source is None or not report.source.lines:
        return None
    if output is not None:
        target = output / (report.path.relative_to(given) if given.is_dir() else report.path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
    elif in_place:
        target = report.path
    else:
        return None
    target.write_bytes(report.source.content)
    return target


def _copy_others(root: Path, output: Path, ported: set[Path]) -> None:
    """Copy the Python files that need no change, which programs may import. Other files stay where they are."""
    for file in python_files(root):
        target = output / file.relative_to(root)
        if file not in ported and output.resolve() not in file.resolve().parents:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
