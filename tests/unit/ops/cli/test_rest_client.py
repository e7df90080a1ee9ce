"""Asking drivers: whom the command line believes, and what it makes of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.ops.rest.test_https import certificate
from tidemill.ops.cli.drivers import DriverJob, RestAddress, recorded
from tidemill.ops.cli.failures import NotThereError
from tidemill.ops.cli.rest_client import DriverGoneError, JobAddress, RefusedError, address_of
from tidemill.ops.rest.server import RestServer
from tidemill.ops.rest.settings import RestSettings

GIVEN = "a token of this test"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    chain, key = certificate(tmp_path)
    settings = RestSettings(ports=(0,), address="localhost", certificate=chain, certificate_key=key)
    server = RestServer(replace(settings, operate_token=GIVEN))
    yield server
    server.close()


def test_the_certificate_of_a_driver_is_believed_and_no_other(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_TOKEN", GIVEN)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # where nobody is: the token goes nowhere else
    known = RestAddress(server.url, "env:THE_TOKEN", server.settings.certificate)
    with pytest.raises(NotThereError, match="nobody"):
        JobAddress("nobody", known).ask("GET")
    with pytest.raises(DriverGoneError, match="CERTIFICATE_VERIFY_FAILED"):
        JobAddress("nobody", RestAddress(server.url, "env:THE_TOKEN")).ask("GET")
    with pytest.raises(RefusedError, match="a token is needed"):
        JobAddress("nobody", RestAddress(server.url, None, server.settings.certificate)).ask("GET")


def test_a_token_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    address = JobAddress("job", RestAddress("http://127.0.0.1:9", f"file:{tmp_path / 'token'}"))
    with pytest.raises(NotThereError, match="there is no token"):
        address.ask("GET")
    assert not (tmp_path / "token").exists()


def test_a_driver_without_a_server_cannot_be_asked() -> None:
    with recorded("job.py", None) as record:
        record.put(DriverJob("job-1", "one"))
        with pytest.raises(NotThereError, match=r"job job-1, process \d+, cannot be asked: .* rest.enabled: false"):
            address_of("job", None, None)


def test_an_address_without_a_scheme_is_plain_http() -> None:
    assert address_of("job", "127.0.0.1:8081", "env:T") == JobAddress(
        "job", RestAddress("http://127.0.0.1:8081", "env:T")
    )
