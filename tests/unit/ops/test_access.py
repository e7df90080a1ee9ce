"""Tokens and names that servers of this process go by."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from tidemill.errors import ConfigurationError
from tidemill.ops import access
from tidemill.ops.access import host_of, read_token, same_secret


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    where = f"file:{tmp_path}/token"
    token = read_token(where, "a.token")
    assert token is not None
    assert len(bytes.fromhex(token)) == 32
    assert read_token(where, "a.token") == token == (tmp_path / "token").read_text().strip()
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert read_token(f"file:{tmp_path}/other", "a.token") != token


def test_a_token_for_which_there_is_no_room_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, *args: object, **options: object) -> None:
        os.close(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        with pytest.raises(ConfigurationError, match="No space left on device"):
            read_token(f"file:{tmp_path}/token", "a.token")
    assert read_token(f"file:{tmp_path}/token", "a.token"), "made when there is room"


def test_a_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "known")
    assert read_token("env:A_TOKEN", "a.token") == "known"
    assert read_token(None, "a.token") is None


def test_a_token_that_another_process_is_just_making_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_WRITE_SECONDS", 60.0)
    path = tmp_path / "token"
    path.touch(mode=0o600)
    writing = threading.Timer(0.05, path.write_text, ["theirs\n"])
    writing.start()
    assert read_token(f"file:{path}", "a.token") == "theirs"
    writing.join()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("known", "a.token must specify where the token is stored"),
        ("file:", "a.token must specify where"),
        ("env:", "a.token must specify where"),
        ("env:TIDEMILL_NO_SUCH", "no environment variable TIDEMILL_NO_SUCH"),
        ("file:/no/such/token", "a.token cannot be found"),
        ("file:FOLDER/empty", "is empty"),
        ("file:FOLDER/open", "can be read by others"),
    ],
)
def test_other_tokens_are_refused(tmp_path: Path, where: str, message: str) -> None:
    (tmp_path / "empty").touch(0o600)
    (tmp_path / "open").write_text("known")
    (tmp_path / "open").chmod(0o640)
    with pytest.raises(ConfigurationError, match=message) as refused:
        read_token(where.replace("FOLDER", str(tmp_path)), "a.token")
    assert "known" not in str(refused.value)


def test_secrets_are_compared_whatever_was_sent() -> None:
    assert same_secret("a", "a")
    assert not same_secret("\udcff", "a")
    assert not same_secret("é", "e")
    assert not same_secret("", "a")


@pytest.mark.parametrize(
    ("header", "host"), [("[::1]", "::1"), ("a:1:2", "a:1"), ("", ""), (":80", ""), ("LocalHost", "localhost")]
)
def test_hosts_of_headers(header: str, host: str) -> None:
    assert host_of(header) == host
