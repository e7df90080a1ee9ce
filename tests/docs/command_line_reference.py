"""The reference of the command line, made from the command line itself.

python -m tests.docs.command_line_reference    # writes it into docs/command-line.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from tidemill.ops.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
HEADING = "\n## Reference\n"


def reference() -> str:
    """Every verb with its usage, what it does, its arguments and options."""
    return "\n".join(line for name, command in _verbs("tidemill", get_command(app)) for line in _section(name, command))


def written() -> str:
    """The reference that the page has."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[2].strip()


def _verbs(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    verbs = getattr(command, "commands", None)
    if verbs is None:
        yield name, command
    else:
        for verb, inner in verbs.items():
            yield from _verbs(f"{name} {verb}", inner)


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    usage = [param.make_metavar(None) if param.metavar is None else param.metavar for param in arguments]
    yield f"### {name}\n"
    yield f"`{' '.join([name, '[OPTIONS]', *usage])}`\n"
    yield inspect.cleandoc(command.help) + "\n"
    yield "| | |\n|---|---|"
    for param, metavar in zip(arguments, usage, strict=True):
        yield f"| `{metavar}` | {_cell(param)} |"
    for param in options:
        value = "" if param.is_flag else f" {param.metavar or 'N'}"  # those that name no value take a number
        yield f"| {', '.join(f'`{opt}{value}`' for opt in param.opts)} | {_cell(param)} |"
    yield ""


def _cell(param: Any) -> str:
    default = param.default
    told = f" Default: {default}." if isinstance(default, int) and not isinstance(default, bool) else ""
    return f"{param.help or ''}{told}".replace("|", "\\|")


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.partition(HEADING)[0] + HEADING + "\n" + reference().strip() + "\n", encoding="utf-8")
