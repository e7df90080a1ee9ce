"""`tidemill doctor`: each finding can be good and bad, and says what to do."""

from __future__ import annotations

import json
import re
import socket
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common.reports.exit_codes import ExitCode
from tidemill.ops import findings as needs

ROOT = Path(__file__).parents[4]


def findings(tidemill: Tidemill, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    result = tidemill("doctor", "--json", *arguments)
    return result.exit_code, {one["what"]: (one["status"], one["detail"]) for one in json.loads(result.stdout)}


def java(folder: Path, version: str) -> None:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2021-01-01' >&2\n")
    program.chmod(0o755)


def test_a_machine_that_has_everything(tidemill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path / "java", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    directory = tmp_path / "checkpoints"
    code, found = findings(tidemill, "-D", f"execution.checkpointing.dir={directory}", "-D", "rest.port=0")
    assert code == 0
    assert found["Java"] == ("ok", f"21.0.2 ({tmp_path}/java/bin/java)")
    assert found["extra spark"][0] == found["extra ops"][0] == "ok"
    assert found["execution.checkpointing.dir"] == ("ok", f"{directory} does not exist yet and can be created")
    assert not directory.exists()
    directory.mkdir()
    found = findings(tidemill, "-D", f"execution.checkpointing.dir={directory}")[1]
    assert found["execution.checkpointing.dir"] == ("ok", f"{directory} can be written and read")
    assert [path for path in directory.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292"])
def test_an_old_java_is_a_problem(
    tidemill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java(tmp_path / "java", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    code, found = findings(tidemill)
    assert (code, found["Java"][0]) == (ExitCode.UNFIT, "problem")
    assert "install Java 17 or later" in found["Java"][1]


def test_no_java_no_room_no_port_no_store(tidemill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, found = findings(
            tidemill,
            *("-D", f"rest.bind-port={taken.getsockname()[1]}"),
            *("-D", f"execution.checkpointing.dir={tmp_path / 'file' / 'checkpoints'}"),
            *("-D", "execution.checkpointing.savepoint-dir=gopher://host/path"),
        )
    assert code == ExitCode.UNFIT
    assert {what for what, (status, _) in found.items() if status == "problem"} == {
        "Java",
        "REST port",
        "execution.checkpointing.dir",
        "execution.checkpointing.savepoint-dir",
    }
    assert "has no bin/java" in found["Java"][1]
    assert "rest.bind-port" in found["REST port"][1]
    assert "gopher" in found["execution.checkpointing.savepoint-dir"][1]


def test_a_directory_where_a_name_can_be_created_twice_is_a_problem(
    tidemill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides which of two drivers commits is that one of them cannot create the manifest."""
    monkeypatch.setattr(LocalStorage, "create", LocalStorage.write)
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    code, found = findings(tidemill, "-D", f"execution.checkpointing.dir={directory}", "-D", "rest.port=0")
    status, detail = found["execution.checkpointing.dir"]
    assert code != 0
    assert status != "ok"
    assert "two drivers could commit the same epoch there" in detail
    assert [path for path in directory.rglob("*") if path.is_file()] == []


def test_an_absent_extra_is_no_problem_and_an_absent_package_is(
    tidemill: Tidemill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path / "java", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    known = needs.version_of
    monkeypatch.setattr(needs, "version_of", lambda name: None if name == "obstore" else known(name))
    code, found = findings(tidemill)
    assert (code, found["extra object-store"]) == (
        0,
        ("absent", "obstore not installed: pip install 'tidemill[object-store]'"),
    )
    monkeypatch.setattr(needs, "version_of", lambda name: None if name == "pyarrow" else known(name))
    code, found = findings(tidemill)
    assert (code, found["package pyarrow"]) == (ExitCode.UNFIT, ("problem", "pip install pyarrow"))


def test_it_asks_for_what_the_package_declares() -> None:
    always: set[str] = set()
    extras: dict[str, set[str]] = {}
    for requirement in requires("tidemill") or ():
        name = re.split(r"[\[<>=;]", requirement)[0].strip()
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if extra is not None:
            extras.setdefault(extra[1], set()).add(name)
        elif ";" not in requirement:  # without typing-extensions, which only Python 3.10 needs
            always.add(name)
    del extras["demo"], extras["all"]
    assert always == set(needs.PACKAGES)
    assert extras == {extra: set(packages) for extra, packages in needs.EXTRAS.items()}
