"""The log of the driver over REST: its last lines, without secrets, for who may operate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.ops.rest.serving import Client
from tests.waiting import eventually
from tidemill.runtime.observe.driver_log import LOG_VARIABLE


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "driver.log"
    path.write_text("the program begins\nconnecting to postgres://me:hunter2@db with password='hunter2'\nready\n")
    monkeypatch.setenv(LOG_VARIABLE, str(path))
    return path


def test_the_last_lines_without_secrets(client: Client, path: str, log: Path) -> None:
    whole = client.read(f"{path}/logs")
    assert whole["lines"][0] == "the program begins"
    assert "hunter2" not in str(whole)
    assert (whole["path"], whole["truncated"]) == (str(log), False)
    last = client.read(f"{path}/logs?lines=1")
    assert (last["lines"], last["truncated"]) == (["ready"], True)


def test_it_is_followed_from_where_the_answer_before_ended(client: Client, path: str, log: Path) -> None:
    behind = client.read(f"{path}/logs")["next"]
    assert client.read(f"{path}/logs?after={behind}")["lines"] == []
    with log.open("a") as file:
        file.write("more\n" + "x" * 10_000 + "\n")
    more, long = client.read(f"{path}/logs?after={behind}")["lines"]
    assert (more, len(long)) == ("more", 4096)


def test_a_line_that_is_cut_is_cut_without_its_secrets(client: Client, path: str, log: Path) -> None:
    log.write_text("x" * 4070 + " postgres://me:hunter2@db\n")
    (line,) = client.read(f"{path}/logs")["lines"]
    assert len(line) <= 4096
    assert "hunter" not in line


def test_without_a_log_it_is_said_how_to_have_one(client: Client, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOG_VARIABLE, raising=False)
    answer = client.get(f"{path}/logs")
    assert answer.status == 404
    assert "'tidemill run -d' creates one" in answer.errors
    assert LOG_VARIABLE in answer.errors


def test_no_request_names_a_file(client: Client, path: str, log: Path) -> None:
    (log.parent / "other").write_text("not for you")
    for query in ("path", "file", "name", "log"):
        assert "not for you" not in client.get(f"{path}/logs?{query}={log.parent / 'other'}").text
    assert client.get(f"{path}/logs/other").status == 404
    assert client.get(f"{path}/logs?lines=0").status == 400


def test_who_watches_a_log_does_not_fill_it(
    client: Client, path: str, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tidemill.audit")
    for _ in range(5):
        client.get(f"{path}/logs?lines=7")
    noted = [record.getMessage() for record in caplog.records if f"GET {path}/logs -> 200" in record.getMessage()]
    assert len(noted) <= 1
    client.ask("PATCH", f"{path}?mode=none")
    client.ask("PATCH", f"{path}?mode=none")
    eventually(lambda: caplog.text.count(f"PATCH {path} -> 400") == 2)
