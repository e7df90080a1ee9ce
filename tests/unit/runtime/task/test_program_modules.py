"""A program with files named as packages of the tool: each of the two gets its own, and so do workers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.ops.drivers.program import Program
from tidemill.runtime.task.program_modules import shared_names, write_stubs

FILES = {
    "rich.py": "import helpers\nOWNER = 'program'\nclass Coin: pass\n",
    "click/__init__.py": "from click.inner import NAME\nfrom . import inner\n",
    "click/inner.py": "import rich\nNAME = f'inner of {rich.OWNER}'\n",
    "statistics.py": "OWNER = 'program'\n",
    "helpers.py": "import os.path\nNUMBER = 7\ndef owner():\n    import rich\n    return rich.OWNER\n",
    "data.txt": "",
    "folder/no_package.txt": "",
}
SCRIPT = """
import click, click.inner, helpers, pickle, rich, statistics, sys
from rich import Coin
with open(sys.argv[1], "wb") as file:
    names = [rich.OWNER, click.NAME, click.inner.NAME, statistics.OWNER, helpers.owner()]
    pickle.dump([*names, Coin, helpers.owner], file)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "job.py").write_text(SCRIPT)
    return folder


def test_names_are_shared_with_the_standard_library_and_with_what_the_tool_needs(program: Path) -> None:
    assert shared_names([str(program)]) == {"rich", "click", "statistics"}
    (program / "pytest.py").touch()
    assert "pytest" not in shared_names([str(program)]), "installed, but nothing that the tool imports"


def test_the_command_line_imports_its_packages_and_the_program_its_own_files(program: Path, tmp_path: Path) -> None:
    tool = (
        "import sys\n"
        "from tidemill.ops.drivers.program import Program\n"
        "Program(sys.argv[1], (sys.argv[2],)).run()\n"
        "import click, statistics, rich.table\n"
        "print(click.Command, statistics.mean([1, 3]), rich.table.Table)\n"
    )
    found = tmp_path / "found"
    result = subprocess.run(
        [sys.executable, "-P", "-c", tool, str(program / "job.py"), str(found)],
        capture_output=True,
        text=True,
        check=False,
        cwd=program,
    )
    assert result.stderr == ""
    assert "<class 'click.core.Command'> 2 <class 'rich.table.Table'>" in result.stdout
    worker = (
        "import json, pickle, statistics, sys\n"
        "import rich.table\n"
        "*names, coin, owner = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(json.dumps([names, coin.__module__, owner(), statistics.mean([1, 3]), helpers_file(owner)]))\n"
    ).replace("helpers_file(owner)", "sys.modules['helpers'].__file__")
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    write_stubs(stubs, [str(program)], shared_names([str(program)]))
    on_worker = subprocess.run(
        [sys.executable, "-c", worker, str(found)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(stubs)},
    )
    assert on_worker.stderr == ""
    assert json.loads(on_worker.stdout) == [
        ["program", "inner of program", "inner of program", "program", "program"],
        "tidemill_program.rich",
        "program",
        2,
        str(program / "helpers.py"),
    ]


def test_a_program_without_such_files_is_first_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("NUMBER = 7\n")
    script = tmp_path / "job.py"
    script.write_text("import only_here, os, sys\nprint(only_here.__name__, sys.path[0], os.environ['PYTHONPATH'])\n")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    Program(str(script)).run()
    assert pickle.loads(pickle.dumps(sys.modules.pop("only_here").NUMBER)) == 7
    assert "PYTHONPATH" not in os.environ


def test_python_m_tidemill_does_not_import_files_of_the_working_directory(program: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tidemill", "--version"], capture_output=True, text=True, check=False, cwd=program
    )
    assert (result.returncode, result.stderr) == (0, "")
