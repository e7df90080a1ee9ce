"""The server with a certificate: requests are encrypted, and plain ones are not answered."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tidemill.ops.rest.server import RestServer
from tidemill.ops.rest.settings import RestSettings


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for this machine that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, plain))
    return str(folder / "certificate.pem"), str(folder / "key.pem")


def test_with_a_certificate_it_is_https(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    server = RestServer(RestSettings(ports=(0,), certificate=chain, certificate_key=key))
    try:
        assert server.url == f"https://127.0.0.1:{server.port}"
        trusting = ssl.create_default_context(cafile=chain)
        secure = http.client.HTTPSConnection("localhost", server.port, timeout=5, context=trusting)
        secure.request("GET", "/jobs", headers={"Origin": f"https://localhost:{server.port}"})
        assert json.load(secure.getresponse()) == {"jobs": []}
        secure.close()
        plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        plain.request("GET", "/jobs")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()
    finally:
        server.close()
