"""Asking drivers: whom the command line believes, and what it makes of their answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.unit.ops.rest.test_https import certificate, signed, written
from tidemill.ops.drivers.client import DriverGoneError, JobAddress, RefusedError, job_address
from tidemill.ops.drivers.records import DriverJob, RestAddress, recorded
from tidemill.ops.errors import NotThereError
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
    with pytest.raises(RefusedError, match="a token is required"):
        JobAddress("nobody", RestAddress(server.url, None, server.settings.certificate)).ask("GET")


def test_where_certificates_are_wanted_one_is_shown(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    ours = Authority("ours")
    ca, ann = written(ours, tmp_path / "ours.pem"), signed(ours, "ann", tmp_path / "ann.pem")
    settings = RestSettings(ports=(0,), address="localhost", certificate=chain, certificate_key=key, client_ca=ca)
    server = RestServer(settings)
    try:
        with pytest.raises(NotThereError, match="nobody"):
            job_address("nobody", server.url, None, chain, ann).ask("GET")
        with pytest.raises((RefusedError, DriverGoneError), match=r"requires a certificate: specify it|does not"):
            job_address("nobody", server.url, None, chain, None).ask("GET")
        with pytest.raises(NotThereError, match=r"none\.pem cannot be used"):
            job_address("nobody", server.url, None, chain, str(tmp_path / "none.pem")).ask("GET")
    finally:
        server.close()


def test_a_token_does_not_go_where_a_server_points(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Pointing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("THE_TOKEN", GIVEN)
    with HTTPServer(("127.0.0.1", 0), Pointing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            with pytest.raises(RefusedError, match="responded with 302"):
                job_address("job", f"127.0.0.1:{server.server_port}", "env:THE_TOKEN").ask("GET")
        finally:
            server.shutdown()
    assert asked == ["/jobs/job"]


def test_a_token_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    address = JobAddress("job", RestAddress("http://127.0.0.1:9", f"file:{tmp_path / 'token'}"))
    with pytest.raises(NotThereError, match="there is no token"):
        address.ask("GET")
    assert not (tmp_path / "token").exists()


def test_a_driver_without_a_server_cannot_be_queried() -> None:
    with recorded("job.py", None) as record:
        record.put(DriverJob("job-1", "one"))
        with pytest.raises(NotThereError, match=r"job job-1, process \d+, has no REST server: .* rest.enabled: false"):
            job_address("job", None, None)


def test_an_address_without_a_scheme_is_plain_http() -> None:
    assert job_address("job", "127.0.0.1:8081", "env:T") == JobAddress(
        "job", RestAddress("http://127.0.0.1:8081", "env:T")
    )
