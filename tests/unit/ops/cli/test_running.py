"""`tidemill run` and `tidemill info`: what a program is given, and how its end is reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.unit.ops.cli.words import SCRIPT, words_job
from tidemill.common.reports.exit_codes import ExitCode
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.drivers.program import Program
from tidemill.state_processor import SavepointWriter

SOURCE = Path(__file__).parents[4] / "src"
#: In this process, without a server.
LOCAL = ("-D", "execution.target=local", "-D", "rest.enabled=false")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "count_words.py"
    path.write_text(SCRIPT)
    return path


def written(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


def test_a_script_gets_its_settings_and_its_arguments(tidemill: Tidemill, script: Path) -> None:
    before = sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("PYTHONPATH")
    result = tidemill("run", *LOCAL, "-p", "3", script, "to be", "-p be")
    assert result.exit_code == ExitCode.FINISHED, result.stderr
    assert result.stdout == "parallelism 3\n[('-p', 1), ('be', 1), ('be', 2), ('to', 1)]\n"
    assert "(count words) was started" in result.stderr
    assert (sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("PYTHONPATH")) == before


def test_it_is_said_once_how_to_open_the_page_and_never_with_the_token(
    tidemill: Tidemill, script: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = tidemill("run", "-D", "execution.target=local", "-D", "execution.job-id=words", script)
    assert result.exit_code == ExitCode.FINISHED, result.stderr
    told = r"was started\. REST is at http://127\.0\.0\.1:\d+; 'tidemill page words' prints the address of its page\.\n"
    assert re.search(told, result.stderr)
    assert "the web page and REST API of this driver" not in result.stderr + caplog.text
    assert (home / "rest-token").read_text().strip() not in result.stdout + result.stderr + caplog.text


def test_what_the_program_sets_itself_has_precedence(tidemill: Tidemill, tmp_path: Path) -> None:
    program = written(
        tmp_path,
        "from tidemill.common import Configuration\n"
        "from tidemill.datastream import StreamExecutionEnvironment\n"
        "own = Configuration().set_string('parallelism.default', '7')\n"
        "env = StreamExecutionEnvironment.get_execution_environment(own)\n"
        "print(env.get_parallelism(), env.get_max_parallelism())\n",
    )
    settings = tmp_path / "settings.yaml"
    settings.write_text("parallelism.default: 2\npipeline:\n  max-parallelism: 64\n")
    assert tidemill("run", *LOCAL, "--config", settings, program).stdout == "7 64\n"
    overridden = tidemill("run", *LOCAL, "--config", settings, "-D", "pipeline.max-parallelism=32", program)
    assert overridden.stdout == "7 32\n"


def test_a_file_that_the_environment_names_counts_for_any_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings.yaml").write_text("parallelism.default: 5\n")
    monkeypatch.setenv("TIDEMILL_CONF", str(tmp_path / "settings.yaml"))
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 5


def test_a_function_of_a_module(tidemill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_program_of_tests.py").write_text("import sys\ndef main():\n    print('called with', sys.argv[1:])\n")
    monkeypatch.chdir(tmp_path)
    assert tidemill("run", *LOCAL, "a_program_of_tests:main", "x").stdout == "called with ['x']\n"
    missing = tidemill("run", *LOCAL, "a_program_of_tests:start")
    assert (missing.exit_code, "has no function 'start'" in missing.stderr) == (CommandExit.NOT_FOUND, True)
    nowhere = tidemill("run", *LOCAL, "no_such_module_at_all:main")
    assert (nowhere.exit_code, "no module 'no_such_module_at_all'" in nowhere.stderr) == (CommandExit.NOT_FOUND, True)


ENV = """\
from tidemill.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
"""
ENDS = {
    "a function that raises": (
        ENV + "def halved(x):\n    return 1 / x\nenv.from_collection([0]).map(halved).print()\nenv.execute()\n",
        ExitCode.FAILED,
        "in halved",
    ),
    "a script that raises": ("def f():\n    raise RuntimeError('oh no')\nf()\n", ExitCode.FAILED, "oh no"),
    "a setting that cannot be": (
        ENV + "env.get_configuration().set_string('parallelism.default', 'many')\n",
        ExitCode.UNFIT,
        "parallelism.default",
    ),
    "a savepoint that is not there": (
        ENV
        + "env.get_configuration().set_string('execution.state-recovery.path', '/nosuch/savepoint')\n"
        + "env.from_collection([1]).print()\nenv.execute()\n",
        ExitCode.UNFIT,
        "/nosuch/savepoint is neither a savepoint",
    ),
    "a script that exits": ("raise SystemExit(7)\n", 7, ""),
    "a script that exits with words": ("raise SystemExit('enough')\n", 1, "enough"),
    "a script that is not Python": ("def f(:\n", ExitCode.FAILED, "SyntaxError"),
    "an interrupted script": ("raise KeyboardInterrupt\n", CommandExit.INTERRUPTED, "interrupted"),
}


@pytest.mark.parametrize("end", list(ENDS))
def test_the_exit_code_says_how_a_program_ends(tidemill: Tidemill, tmp_path: Path, end: str) -> None:
    text, code, told = ENDS[end]
    result = tidemill("run", *LOCAL, written(tmp_path, text))
    assert result.exit_code == code
    assert told in result.stderr
    assert "ops/cli" not in result.stderr  # the user's traceback, never ours


def test_a_configured_savepoint_counts_for_a_job_that_has_epochs(tidemill: Tidemill, tmp_path: Path) -> None:
    program = written(tmp_path, f"{ENV}env.from_collection([1]).print()\nenv.execute()\n")
    job = ["-D", "execution.job-id=job", "-D", f"execution.checkpointing.dir={tmp_path}"]
    assert tidemill("run", *LOCAL, *job, program).exit_code == ExitCode.FINISHED
    refused = tidemill("run", *LOCAL, *job, "-s", "/nosuch/savepoint", program)
    assert (refused.exit_code, "/nosuch/savepoint is neither a savepoint" in refused.stderr) == (ExitCode.UNFIT, True)
    assert tidemill("run", *LOCAL, *job, "-s", "/nosuch", "--prefer-latest", program).exit_code == ExitCode.FINISHED


def test_a_program_that_is_not_there(tidemill: Tidemill, tmp_path: Path) -> None:
    result = tidemill("run", *LOCAL, tmp_path / "nothing.py")
    assert result.exit_code == CommandExit.NOT_FOUND
    assert "No such file" in result.stderr


def test_a_file_is_no_module(tidemill: Tidemill, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    result = tidemill("run", *LOCAL, f"{script.name}:main")
    assert result.exit_code == CommandExit.NOT_FOUND
    assert f"specify {script.name} for the script, or the module without .py" in result.stderr
    assert result.stdout == "", "nothing was run"


def test_a_program_without_a_job_is_noticed(tidemill: Tidemill, tmp_path: Path) -> None:
    result = tidemill("run", *LOCAL, written(tmp_path, "print('nothing to do')\n"))
    assert (result.exit_code, "ended without executing a job" in result.stderr) == (0, True)


def test_info_shows_the_plan_and_runs_nothing(tidemill: Tidemill, script: Path) -> None:
    text = tidemill("info", *LOCAL, "-p", "2", script)
    assert text.exit_code == 0, text.stderr
    assert "Job 'count words'" in text.stdout
    assert "uid counts, keyed" in text.stdout
    assert "[('be', 1)" not in text.stdout
    document = json.loads(tidemill("info", "--json", *LOCAL, script).stdout)  # without what the program prints
    assert document["name"] == "count words"
    assert {"sink": "Sink: Collect", "guarantee": "exactly-once", "because": []} in document["guarantees"]


def test_info_reports_what_becomes_of_a_savepoint(tidemill: Tidemill, script: Path, tmp_path: Path) -> None:
    words_job(tmp_path / "jobs", "words", ["to be"])
    known = (*LOCAL, "-D", f"execution.checkpointing.dir={tmp_path / 'jobs'}")  # what is there is trusted
    finished = tidemill("info", *known, "-s", tmp_path / "jobs" / "words", script)
    assert (finished.exit_code, "is FINISHED" in finished.stderr) == (ExitCode.UNFIT, True)
    saved = SavepointWriter.from_existing_savepoint(str(tmp_path / "jobs" / "words")).write(
        str(tmp_path / "jobs" / "saved")
    )
    fits = tidemill("info", *known, "-s", saved, script)
    assert fits.exit_code == 0, fits.stderr
    assert "From epoch 2 of job words:" in fits.stdout
    script.write_text(SCRIPT.replace('uid("counts")', 'uid("renamed")'))
    refused = tidemill("info", *known, "-s", saved, script)
    assert (refused.exit_code, "counts" in refused.stderr) == (ExitCode.UNFIT, True)
    assert tidemill("info", *known, "-n", "-s", saved, script).exit_code == 0
    assert tidemill("info", *known, "-s", tmp_path / "none", script).exit_code == CommandExit.NOT_FOUND


def test_a_program_without_a_job_has_no_plan(tidemill: Tidemill, tmp_path: Path) -> None:
    result = tidemill("info", *LOCAL, written(tmp_path, "print('nothing to do')\n"))
    assert result.exit_code == ExitCode.FAILED
    assert "ended without executing a job" in result.stderr


def test_the_code_of_a_program_is_packed_for_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("main.py", "beside.py", "package/__init__.py", "package/deep/x.py", "data/large.bin", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    of_script = Program("main.py").ship(tmp_path / "out")
    assert of_script is not None
    assert sorted(zipfile.ZipFile(of_script).namelist()) == ["beside.py", "package/__init__.py", "package/deep/x.py"]
    of_function = Program("package.deep:main").ship(tmp_path / "out")
    assert of_function is not None
    assert sorted(zipfile.ZipFile(of_function).namelist()) == ["package/__init__.py", "package/deep/x.py"]
    assert Program("json:dumps").ship(tmp_path / "out") is None  # installed, also where workers are


def test_a_program_finds_the_files_that_workers_get(
    tidemill: Tidemill, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Flink: what is named is importable on both sides."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "cutting.py").write_text("cut = str.split\n")
    with zipfile.ZipFile(tmp_path / "more" / "taste.zip", "w") as archive:
        archive.writestr("tasting.py", "def bland(word):\n    return word == 'not'\n")
    script.write_text(
        "from cutting import cut\nfrom tasting import bland\n\n"
        + SCRIPT.replace("flat_map(str.split)", "flat_map(cut).filter(lambda word: not bland(word))")
    )
    files = f"{tmp_path / 'more' / 'cutting.py'},{tmp_path / 'more' / 'taste.zip'}"
    path = list(sys.path)
    result = tidemill("run", *LOCAL, "--py-files", files, script)
    assert (result.exit_code, result.stderr.count("Error")) == (0, 0), result.stderr
    assert tidemill("info", *LOCAL, "-D", f"python.files={files}", script).exit_code == 0
    assert sys.path == path
    for name in ("cutting", "tasting"):
        monkeypatch.delitem(sys.modules, name)
    assert tidemill("run", *LOCAL, script).exit_code == ExitCode.FAILED


def test_a_process_of_its_own(script: Path, tmp_path: Path) -> None:
    """Classes of the script are stored under its name, `__main__`; the output is plain when it is piped."""
    script.write_text(
        "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Word:\n    text: str\n\n"
        + SCRIPT.replace("flat_map(str.split)", "flat_map(str.split).map(Word).map(lambda word: word.text)")
    )
    command = [sys.executable, "-m", "tidemill", "run", *LOCAL, str(script), "a b a"]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "[('a', 1), ('a', 2), ('b', 1)]"), ended.stderr
