"""Pages run in forks of one process that has imported what most of them need: that takes longer than to run them.

Each line of the process's input is a JSON list: the page, the folder to run it in, the file for what it prints, and the
seconds that it may take. The answer is a line with the exit code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.docs import markdown_blocks

#: Imported before the first page. No thread may run when the process forks: these are settings of libraries for that.
MODULES: Final = (
    "tidemill.datastream",
    "tidemill.local.executor",
    "tidemill.testing",
    "pyspark.sql",
    "pyarrow.parquet",
)
SINGLE_THREADED: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


class PageProcess:
    """The process, from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, page: Path, folder: Path, seconds: float) -> tuple[int, str]:
        """The exit code of a page that is run in ``folder``, and what it has printed to standard error."""
        errors = folder / "page-errors"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(page), str(folder), str(errors), seconds]), file=self._process.stdin, flush=True)
        code = json.loads(self._process.stdout.readline())
        return code, errors.read_text(encoding="utf-8")


@contextmanager
def page_process(environment: Mapping[str, str]) -> Iterator[PageProcess]:
    """Start the process; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        env={**os.environ, **SINGLE_THREADED, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:  # closes its input, which ends it
        yield PageProcess(process)


def main() -> int:
    """Fork for each line of the input. A fork returns like the process itself, so that it ends as a program does."""
    for module in MODULES:
        __import__(module)
    for line in iter(sys.stdin.readline, ""):
        page, folder, errors, seconds = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            signal.alarm(int(seconds))
            os.chdir(folder)
            _redirect(errors)
            return markdown_blocks.main(Path(page))
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
    return 0


def _redirect(errors: str) -> None:
    """Read from nothing, and print to a file; what the parent has buffered is not this process's."""
    for target, path, mode in (
        (0, os.devnull, os.O_RDONLY),
        (1, os.devnull, os.O_WRONLY),
        (2, errors, os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(path, mode, 0o600)
        os.dup2(opened, target)
        os.close(opened)


if __name__ == "__main__":
    sys.exit(main())
