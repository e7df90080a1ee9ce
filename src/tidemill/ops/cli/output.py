"""Output of commands: tables for users, a single JSON document for programs, progress only on a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timezone
from typing import Any, Final, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

__all__ = ["elapsed", "is_attended", "moment", "print_json", "print_table", "progress", "size", "waiting"]

#: Width of piped output, which is not truncated or wrapped.
_PIPED_WIDTH: Final = 10_000
_UNITS: Final = ("KB", "MB", "GB", "TB")
#: Control characters, and characters that change the direction of text.
_STEERING: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def is_attended(stream: TextIO) -> bool:
    """Whether the stream is a user's interactive terminal that nothing records, so that secrets may be printed to it.

    A terminal alone is not sufficient: containers can have one too (``docker run -t``, ``tty: true``), and its output
    goes to their log. So standard input must also be a terminal, the stream must have a size, and the process must
    belong to a session other than that of process 1, the main process of a container.
    """
    if sys.stdin is None or not (stream.isatty() and sys.stdin.isatty()):
        return False
    return os.getsid(0) != 1 and os.get_terminal_size(stream.fileno()).columns > 0


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "nothing") -> None:
    """Print a table with one line for each row, numbers aligned to the right. Without rows, ``empty`` is printed.

    Control characters are escaped, because cells contain user data.
    """
    if not rows:
        typer.echo(empty)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(Text(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else _plain(str(cell))) for cell in row))
    console = _console()
    with console.capture() as printed:
        console.print(table)
    # Remove the padding of the last column, which is unwanted in a pipe.
    typer.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, if it is a terminal. Yields a function that advances the bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)


def waiting(label: str) -> AbstractContextManager[object]:
    """Show on standard error, if it is a terminal, that an operation of unknown duration is in progress."""
    console = Console(stderr=True)
    return console.status(label) if console.is_terminal else nullcontext()


def size(count: int) -> str:
    """Format a number of bytes in human-readable form.

    >>> size(999), size(1024), size(3 << 30)
    ('999 B', '1.0 KB', '3.0 GB')
    """
    if count < 1024:
        return f"{count} B"
    power = min(len(_UNITS), (count.bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.1f} {_UNITS[power - 1]}"


def moment(milliseconds: int) -> str:
    """Format a time in UTC, given in milliseconds since 1970.

    >>> moment(1_700_000_000_000)
    '2023-11-14 22:13:20Z'
    """
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def elapsed(milliseconds: int, now: int) -> str:
    """Format how long ago a time was, in the largest unit that fits.

    >>> elapsed(0, 59_000), elapsed(0, 7_200_000), elapsed(0, 172_800_000)
    ('59 s ago', '2 h ago', '2 d ago')
    """
    seconds = max(0, now - milliseconds) // 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def _plain(text: str) -> str:
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _console() -> Console:
    # Created for each call, because standard output may have been replaced.
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=_PIPED_WIDTH)
