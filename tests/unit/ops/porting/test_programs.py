"""Programs are compiled in a process of their own, and judged by what they lack."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.waiting import eventually
from tidemill.ops.errors import NotThereError
from tidemill.ops.porting.findings import Weight
from tidemill.ops.porting.programs import PortedProgram, Verdict, port

START = """\
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
ds = env.from_collection([1, 2])
"""
JOB = f"{START}ds.print()\nenv.execute('job')\n"


def reported(folder: Path, text: str, *arguments: str, static: bool = False, seconds: float = 500) -> PortedProgram:
    program = folder / "job.py"
    program.write_text(text)
    (report,) = port(program, arguments, static=static, seconds=seconds)
    assert program.read_text() == text, "nothing is written"
    return report


def missing(report: PortedProgram) -> list[tuple[int, str, str]]:
    return [(one.line, one.name, one.text) for one in report.findings if one.kind is Weight.MISSING]


def test_every_job_of_a_program_is_compiled_and_none_runs(tmp_path: Path) -> None:
    report = reported(
        tmp_path,
        """\
import argparse, sys, time
from pathlib import Path
from pyflink.datastream import StreamExecutionEnvironment

def note(value):
    Path(sys.argv[2]).write_text("it ran")
    return value

def main(names):
    for name in names:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).map(note).print()
        client = env.execute_async(name) if name == "third" else env.execute(name)
        print(client.get_job_execution_result().result() if name == "third" else client.get_net_runtime())
    assert list(env.from_collection([1]).map(note).execute_and_collect("collected")) == []
    assert env.from_collection([1]).execute_and_collect(limit=3) == []

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.parse_args()
    main(["first", "second", "third"])
""",
        "--out",
        str(tmp_path / "out"),
    )
    assert report.verdict is Verdict.RUNS, report.findings
    assert report.jobs is not None
    assert [job.name for job in report.jobs][:4] == ["first", "second", "third", "collected"]
    assert len(report.jobs) == 5
    assert not (tmp_path / "out").exists()


NEEDS = {
    "a file": ("open('/no/such/file.json')\n" + JOB, "the file /no/such/file.json", 1),
    "a file of a cause": (
        "try:\n    open('/no/such')\nexcept OSError as e:\n    raise ValueError('settings') from e\n" + JOB,
        "the file /no/such",
        4,
    ),
    "an argument": ("import sys\nname = sys.argv[1]\n" + JOB, "arguments", 2),
    "an option": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--topic', required=True)\np.parse_args()\n"
        + JOB,
        "required: --topic",
        4,
    ),
    "a variable": ("import os\nos.environ['BROKERS_OF_TEST']\n" + JOB, "the environment variable BROKERS_OF_TEST", 2),
    "a service": ("import socket\nsocket.create_connection(('127.0.0.1', 1), 5)\n" + JOB, "a service", 2),
    "a package": ("import no_such_package.client\n" + JOB, "the module no_such_package", 1),
    "a terminal": ("name = input()\n" + JOB, "input from a terminal", 1),
}


@pytest.mark.parametrize("case", list(NEEDS))
def test_what_a_program_needs_is_no_failure_of_the_port(case: str, tmp_path: Path) -> None:
    text, need, line = NEEDS[case]
    report = reported(tmp_path, text)
    assert report.verdict is Verdict.NEEDS, report.findings
    assert report.needs is not None
    assert need in report.needs.text
    assert report.needs.line == line


def test_what_is_missing_counts_more_than_what_it_needs(tmp_path: Path) -> None:
    report = reported(tmp_path, "open('/no/such/file')\nfrom pyflink.table import TableEnvironment\n" + JOB)
    assert report.verdict is Verdict.MISSING
    assert [line for line, _, _ in missing(report)] == [2]


FAILS = {
    "an import": ("from pyflink.common import Nonsense\n" + JOB, 1, "porting.md"),
    "a value": (f"{START}\nds.map(3).print()\nenv.execute()\n", 6, "Error"),
    "a job that cannot be compiled": (
        f"{START}ds.rebalance().forward().set_parallelism(0)\nds.print()\nenv.execute()\n",
        5,
        "Error",
    ),
    "a job whose error the program handles": (
        (
            f"{START}ds.key_by(lambda x: x).print().uid('a')\nds.print().uid('a')\n"
            "try:\n    env.execute()\nexcept Exception as e:\n    print(e)\n"
        ),
        8,
        "GraphError",
    ),
    "an error of its own": ("raise RuntimeError('of its own')\n" + JOB, 1, "RuntimeError: of its own"),
    "syntax": ("print 'hello'\n", 1, "not a program of this Python"),
    "an exit": ("import os\nos._exit(3)\n" + JOB, 0, "exit code 3"),
}


@pytest.mark.parametrize("case", list(FAILS))
def test_why_a_program_cannot_run(case: str, tmp_path: Path) -> None:
    text, line, reason = FAILS[case]
    report = reported(tmp_path, text)
    assert report.verdict is Verdict.MISSING
    ((found_line, _, found_text),) = missing(report)
    assert found_line == line
    assert reason in found_text


def test_a_program_may_stop_for_want_of_results(tmp_path: Path) -> None:
    report = reported(tmp_path, f"{START}print(list(ds.execute_and_collect())[0])\n")
    assert report.verdict is Verdict.RUNS
    (note,) = report.findings
    assert (note.line, note.kind) == (5, Weight.NOTE)
    assert "nothing runs here" in note.text


def test_a_program_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_its_job, wait = tmp_path / "after its job", subprocess.Popen.wait

    def wait_for_its_job(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is not None:
            eventually(after_its_job.exists)
            timeout = 0
        return wait(process, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "wait", wait_for_its_job)
        text = f"{JOB}import pathlib, time\npathlib.Path({str(after_its_job)!r}).touch()\ntime.sleep(600)\n"
        assert reported(tmp_path, text).verdict is Verdict.RUNS
    report = reported(tmp_path, f"import time\ntime.sleep(600)\n{JOB}", seconds=2)
    assert report.verdict is Verdict.NEEDS
    assert report.needs is not None
    assert "still running after 2 seconds" in report.needs.text


def test_a_program_is_only_analysed(tmp_path: Path) -> None:
    text = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n{JOB}"
    report = reported(tmp_path, text, static=True)
    assert (report.verdict, report.jobs) == (Verdict.RUNS, None)
    assert not (tmp_path / "ran").exists()


def test_a_directory(tmp_path: Path) -> None:
    for name, text in {
        "main.py": f"from helpers.streams import doubled\n{START}doubled(ds).print()\nenv.execute('job')\n",
        "helpers/__init__.py": "",
        "helpers/streams.py": "from pyflink.common import Types\ndef doubled(s):\n return s.map(len, Types.INT())\n",
        "other.py": "print('not of PyFlink')\n",
        "python2.py": "print 'not of PyFlink'\n",
        ".hidden/job.py": JOB,
        "env/pyvenv.cfg": "",
        "env/lib/job.py": JOB,
        "lib/site-packages/job.py": JOB,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    reports = {
        report.path.relative_to(tmp_path).as_posix(): report for report in port(tmp_path, (), static=False, seconds=500)
    }
    assert {name: report.verdict for name, report in reports.items()} == {
        "main.py": Verdict.RUNS,
        "helpers/streams.py": Verdict.MODULE,
    }


def test_there_is_nothing_to_port(tmp_path: Path) -> None:
    with pytest.raises(NotThereError, match="does not exist"):
        list(port(tmp_path / "no", (), static=True, seconds=1))
    with pytest.raises(NotThereError, match="imports pyflink"):
        list(port(tmp_path, (), static=True, seconds=1))
