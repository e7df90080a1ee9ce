"""The programs of the corpus, what they printed on PyFlink, and what they print here.

`programs` has PyFlink programs in the style of those that people publish. `recorded` has the standard output of each
that runs without a service, with the version of PyFlink that printed it; `record.py` writes it. `corpus.json` has the
rest.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from tidemill.common import Configuration
from tidemill.datastream.environment.outer_configuration import configured_from_outside
from tidemill.ops.drivers.program import Program
from tidemill.ops.porting.imports import ported

HERE: Final = Path(__file__).parent
ABOUT: Final[dict[str, Any]] = json.loads((HERE / "corpus.json").read_text(encoding="utf-8"))
PROGRAMS: Final = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
#: Programs that are not run, because they need a service, or something that is not in Tidemill by design.
NOT_RUN: Final = {*ABOUT["only_compiled"], *ABOUT["missing"]}
RUN: Final = [name for name in PROGRAMS if name not in NOT_RUN]
ON_SPARK: Final = sorted(ABOUT["on_spark"])
#: Programs that print something else here than on PyFlink, because PyFlink is wrong.
DIFFERENT: Final = sorted(ABOUT["differs"])
#: What programs print before a record if their sink has several subtasks.
_SUBTASK: Final = re.compile(r"^\d+> ", re.MULTILINE)


def path_of(name: str) -> Path:
    return HERE / "programs" / f"{name}.py"


def parameters(names: list[str]) -> list[Any]:
    """The programs as parameters of a test; those of `expected_failures` must fail."""
    expected = ABOUT["expected_failures"]
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=expected[name]) if name in expected else ()) for name in names
    ]


def recorded(name: str) -> list[str]:
    """The lines that a program printed on PyFlink."""
    text = (HERE / "recorded" / f"{name}.txt").read_text(encoding="utf-8")
    return _lines(name, text.partition("\n")[2])


def printed(name: str, settings: dict[str, str], folder: Path) -> list[str]:
    """The lines that a program prints here after its imports are rewritten. It writes its files below `folder`."""
    output = io.StringIO()
    program = Program(str(path_of(name)), tuple(ABOUT["arguments"].get(name, ())))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output):
        patch.setattr(tempfile, "tempdir", str(folder))
        with configured_from_outside(Configuration.from_dict(settings)):
            program.run(lambda path: ported(path.read_bytes(), str(path)).content)
    return _lines(name, output.getvalue())


def _lines(name: str, text: str) -> list[str]:
    """Lines to be compared: in their order, unless that is not determined."""
    lines = _SUBTASK.sub("", text).splitlines()
    return sorted(lines) if name in ABOUT["order_is_free"] else lines
