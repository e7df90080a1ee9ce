"""The server with a certificate: requests are encrypted, plain ones not answered; and clients may have to show one."""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.waiting import eventually
from tidemill.errors import ConfigurationError
from tidemill.ops.rest import listening
from tidemill.ops.rest.server import MOST_CONNECTIONS, RestServer
from tidemill.ops.rest.settings import RestSettings


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for this machine that vouches for itself, and its key."""
    authority = Authority("localhost")
    made = authority.issue("localhost", "localhost")
    chain, key = folder / "certificate.pem", folder / "key.pem"
    chain.write_text(made.certificates + authority.certificate)
    key.write_text(made.key())
    return str(chain), str(key)


def written(authority: Authority, path: Path) -> str:
    """A file with an authority's own certificate."""
    path.write_text(authority.certificate)
    return str(path)


def signed(authority: Authority, name: str, path: Path) -> str:
    """A file with a certificate for a name, and its key."""
    made = authority.issue(name)
    path.write_text(made.certificates + made.key())
    return str(path)


@contextmanager
def serving(settings: RestSettings) -> Iterator[RestServer]:
    server = RestServer(settings)
    try:
        yield server
    finally:
        server.close()


def ask(server: RestServer, identity: str | None = None, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """What a client that shows a certificate, or none, is answered."""
    trusting = ssl.create_default_context(cafile=server.settings.certificate)
    if identity is not None:
        trusting.load_cert_chain(identity)
    secure = http.client.HTTPSConnection("localhost", server.port, timeout=60, context=trusting)
    try:
        secure.request(method, "/jobs", headers=headers)
        answer = secure.getresponse()
        return answer.status, json.load(answer)
    finally:
        secure.close()


def test_with_a_certificate_it_is_https(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with serving(RestSettings(ports=(0,), certificate=chain, certificate_key=key)) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        assert ask(server, Origin=f"https://localhost:{server.port}") == (200, {"jobs": []})
        plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        plain.request("GET", "/jobs")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()


def test_silent_connections_use_up_no_files_and_keep_no_client_out(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with serving(RestSettings(ports=(0,), certificate=chain, certificate_key=key)) as server, ExitStack() as silent:
        address = ("127.0.0.1", server.port)
        clients = [silent.enter_context(socket.create_connection(address, timeout=60)) for _ in range(200)]
        eventually(lambda: len(select.select(clients, [], [], 0)[0]) == 200 - 2 * MOST_CONNECTIONS)
        assert ask(server) == (200, {"jobs": []})
        assert clients[0].recv(1) == b"", "who came first made room"
        assert not select.select(clients[-MOST_CONNECTIONS:], [], [], 0)[0]


def test_a_handshake_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 0.2)
    chain, key = certificate(tmp_path)
    with serving(RestSettings(ports=(0,), certificate=chain, certificate_key=key)) as server:
        trusting = ssl.create_default_context(cafile=chain)

        def in_time() -> ssl.SSLSocket | None:
            plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            try:
                return trusting.wrap_socket(plain, server_hostname="localhost")
            except OSError:  # not on a loaded machine
                plain.close()
                return None

        established: Any = eventually(in_time)
        with (
            established as quick,
            socket.create_connection(("127.0.0.1", server.port), timeout=60) as silent,
        ):
            assert silent.recv(1) == b""
            quick.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert quick.recv(12) == b"HTTP/1.1 200", "the others have not to hurry"


def test_silent_clients_after_the_handshake_keep_no_client_out(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with serving(RestSettings(ports=(0,), certificate=chain, certificate_key=key)) as server, ExitStack() as silent:
        trusting = ssl.create_default_context(cafile=chain)
        for _ in range(MOST_CONNECTIONS + 5):
            plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            silent.enter_context(trusting.wrap_socket(plain, server_hostname="localhost"))
        assert ask(server) == (200, {"jobs": []})


@pytest.fixture
def settings(tmp_path: Path) -> RestSettings:
    """Settings of a server that wants certificates of one authority."""
    chain, key = certificate(tmp_path)
    return RestSettings(ports=(0,), certificate=chain, certificate_key=key, client_ca=str(tmp_path / "ours.pem"))


def test_who_shows_no_certificate_of_the_right_authority_is_not_served(tmp_path: Path, settings: RestSettings) -> None:
    ours, theirs = Authority("ours"), Authority("ours")  # a name proves nothing
    written(ours, tmp_path / "ours.pem")
    with serving(settings) as server:
        assert ask(server, signed(ours, "ann", tmp_path / "ann.pem")) == (200, {"jobs": []})
        for foreign in (
            None,
            signed(theirs, "ann", tmp_path / "forged.pem"),
            signed(Authority("x"), "x", tmp_path / "x.pem"),
        ):
            with pytest.raises((ssl.SSLError, http.client.HTTPException, ConnectionError)):
                ask(server, foreign)
        assert ask(server, str(tmp_path / "ann.pem"))[0] == 200, "others are served as before"


def test_a_certificate_lets_one_operate_and_is_named_in_the_audit(
    tmp_path: Path, settings: RestSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tidemill.audit")
    ours = Authority("ours")
    written(ours, tmp_path / "ours.pem")
    with serving(settings) as server:
        assert ask(server, signed(ours, "ann\nbob", tmp_path / "ann.pem"), "PATCH")[0] == 405, "let through"
        eventually(lambda: "tidemill.audit" in [record.name for record in caplog.records])
    noted = [record.getMessage() for record in caplog.records if record.name == "tidemill.audit"]
    assert noted == [r"operate, certified as commonName=ann\nbob, at 127.0.0.1: PATCH /jobs -> 405"]


def test_where_there_are_tokens_both_are_needed(tmp_path: Path, settings: RestSettings) -> None:
    ours = Authority("ours")
    written(ours, tmp_path / "ours.pem")
    both = RestSettings(**{**vars(settings), "operate_token": "secret"})
    with serving(both) as server:
        ann = signed(ours, "ann", tmp_path / "ann.pem")
        assert ask(server, ann)[0] == 401
        assert ask(server, ann, Authorization="Bearer secret")[0] == 200
        with pytest.raises((ssl.SSLError, http.client.HTTPException, ConnectionError)):
            ask(server, None, Authorization="Bearer secret")


def test_certificates_of_clients_do_for_an_address_that_others_reach(tmp_path: Path, settings: RestSettings) -> None:
    written(Authority("ours"), tmp_path / "ours.pem")
    everywhere = RestSettings(**{**vars(settings), "host": "0.0.0.0"})  # noqa: S104 - nothing listens
    everywhere.check()
    with pytest.raises(ConfigurationError, match=r"can be reached from other machines.*rest\.ssl\.client-ca"):
        RestSettings(**{**vars(everywhere), "client_ca": None}).check()
    with pytest.raises(ConfigurationError, match=r"rest\.ssl\.client-ca cannot be used"):
        RestSettings(**{**vars(everywhere), "client_ca": str(tmp_path / "none.pem")}).check()
    with pytest.raises(
        ConfigurationError,
        match=r"rest\.ssl\.client-ca is set, but rest\.ssl\.certificate, which HTTPS requires, is not",
    ):
        RestSettings(**{**vars(everywhere), "certificate": None, "certificate_key": None}).check()
