"""Runs the Python blocks of one Markdown file, the way a reader would: top to bottom, in one namespace.

A block is run if its info string is `python run`, or if it is `python` and the next block is `output`. What a block
prints must equal the `output` block after it, apart from whitespace at the ends. Other blocks are left alone.

    python -m tests.docs.markdown_blocks README.md

prints what differed or was raised and exits with 1, or exits with 0.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, and its text, which starts at `line` (counted from 1)."""

    info: str
    line: int
    text: str


@dataclass(frozen=True)
class Example:
    """A Python block to run, and what it must print if the page says so."""

    code: Block
    output: Block | None


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a Markdown text; raise ValueError for one that is never closed."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        opening = FENCE.match(line)
        if not opening:
            continue
        body: list[str] = []
        for _, inner in lines:
            closing = FENCE.match(inner)
            if closing and not closing["info"].strip() and len(closing["fence"]) >= len(opening["fence"]):
                break
            body.append(inner)
        else:
            raise ValueError(f"the block opened in line {number} is never closed")
        yield Block(opening["info"].strip(), number + 1, "".join(f"{line}\n" for line in body))


def examples_of(text: str) -> list[Example]:
    blocks = list(blocks_of(text))
    examples = []
    for index, block in enumerate(blocks):
        output = next((after for after in blocks[index + 1 : index + 2] if after.info == "output"), None)
        if block.info == "python run" or (block.info == "python" and output):
            examples.append(Example(block, output))
        elif output:
            raise ValueError(f"the output in line {output.line} follows no python block")
    return examples


def run(path: Path) -> list[str]:
    """Run the examples of a file and return what differs. A traceback out of here shows the file's own line numbers."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main  # so that functions of the page are pickled by value, as those of a script are
    differences: list[str] = []
    for example in examples_of(path.read_text(encoding="utf-8")):
        padding = "\n" * (example.code.line - 1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(padding + example.code.text, str(path), "exec"), main.__dict__)
        if example.output and printed.getvalue().strip() != example.output.text.strip():
            differences += difflib.unified_diff(
                example.output.text.strip().splitlines(),
                printed.getvalue().strip().splitlines(),
                f"{path}:{example.output.line}",
                "printed",
                lineterm="",
            )
    return differences


def main(path: Path) -> int:
    """Run a file and print what differs; the exit code."""
    differing = run(path)
    print("\n".join(differing), file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
