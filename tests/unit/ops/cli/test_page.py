"""The address of a job's page: with its token for its user, without it for a log."""

from __future__ import annotations

import stat
import webbrowser
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.cli.page import how_to_open, page_address
from tidemill.ops.drivers.records import DriverJob, RestAddress, recorded


@pytest.fixture
def rest(tmp_path: Path) -> RestAddress:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("5ecret\n")
    return RestAddress("http://127.0.0.1:8081", f"file:{token}")


def test_the_page_of_the_only_driver_needs_no_name(tidemill: Tidemill, rest: RestAddress) -> None:
    with recorded("job.py", None) as record:
        record.put(DriverJob("one", "one"), rest)
        record.put(DriverJob("two", "two"), rest)
        for arguments in ((), ("one",), ("tw",)):
            assert tidemill("page", *arguments).stdout == "http://127.0.0.1:8081/#token=5ecret\n"
    ended = tidemill("page")
    assert (ended.exit_code, "no driver with a page runs" in ended.stderr) == (CommandExit.NOT_FOUND, True)
    gone = tidemill("page", "one")
    assert (gone.exit_code, "has ended" in gone.stderr) == (CommandExit.NOT_FOUND, True)


def test_of_several_drivers_one_must_be_named(
    tidemill: Tidemill, rest: RestAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded("first.py", None) as first, recorded("second.py", None) as second:
        first.put(DriverJob("one", "one"), rest)
        second.put(DriverJob("two", "two"), RestAddress("http://127.0.0.1:8082"))
        unclear = tidemill("page")
        assert unclear.exit_code == CommandExit.NOT_FOUND
        assert "tidemill page JOB, one of" in unclear.stderr
        assert tidemill("page", "two").stdout == "http://127.0.0.1:8082/\n"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://0.0.0.0:8081", "http://127.0.0.1:8081/"),
        ("http://[::]:8081", "http://[::1]:8081/"),
        ("https://jobs.example.org:8443", "https://jobs.example.org:8443/"),
    ],
)
def test_the_address_is_one_that_a_browser_here_can_open(url: str, address: str) -> None:
    assert page_address(RestAddress(url)) == address


def test_a_log_gets_no_token(rest: RestAddress) -> None:
    assert how_to_open(rest, "one", told=True) == "Its page: http://127.0.0.1:8081/#token=5ecret"
    piped = how_to_open(rest, "one", told=False)
    assert piped == "REST is at http://127.0.0.1:8081; 'tidemill page one' prints the address of its page."


def test_a_browser_does_not_get_the_token_where_others_can_see_it(
    tidemill: Tidemill, rest: RestAddress, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return len(opened) < 3

    monkeypatch.setattr(webbrowser, "open", browse)
    with recorded("job.py", None) as record:
        record.put(DriverJob("one", "one"), rest)
        for _ in range(2):
            assert tidemill("page", "--open").stderr == ""
        assert "No browser could be opened" in tidemill("page", "--open").stderr
    file = home / "page.html"
    assert opened == [file.as_uri()] * 3
    assert 'url=http://127.0.0.1:8081/#token=5ecret"' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
