"""Records what the programs print on real PyFlink. Run it with the Python of an environment that has PyFlink:

PATH=ENV/bin:$PATH ENV/bin/python tests/corpus/record.py [NAMES]

One process runs all of them, because each JVM takes seconds to start. The JVM prints to the standard output that it was
started with, so that the output of a program is what is appended to that file while it runs.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def record(names: list[str]) -> None:
    """Run the programs with these names, or all, and write what they print."""
    about = json.loads((HERE / "corpus.json").read_text())
    version = ".".join(importlib.metadata.version("apache-flink").split(".")[:2])
    shown = os.fdopen(os.dup(1), "w")
    with tempfile.NamedTemporaryFile() as output:
        os.dup2(os.open(output.name, os.O_WRONLY | os.O_APPEND), 1)
        for path in sorted((HERE / "programs").glob("*.py")):
            if path.stem in about["only_compiled"] or path.stem not in (names or [path.stem]):
                continue
            before = Path(output.name).stat().st_size
            failure = _run(path, about["arguments"].get(path.stem, []))
            printed = Path(output.name).read_bytes()[before:].decode()
            if failure is None:
                (HERE / "recorded" / f"{path.stem}.txt").write_text(f"# PyFlink {version}\n{printed}")
            shown.write(f"{path.stem}: {'recorded' if failure is None else failure}\n")
            shown.flush()


def _run(path: Path, arguments: list[str]) -> str | None:
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        return f"exit {ended.code}" if ended.code else None
    except BaseException as error:
        reasons = [line for line in str(error).splitlines() if "Caused by" in line or "Error" in line]
        return "".join(traceback.format_exception_only(type(error), error))[:300] + " | ".join(reasons[-3:])
    finally:
        sys.path.pop(0)
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    record(sys.argv[1:])
