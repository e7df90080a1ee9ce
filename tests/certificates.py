"""Certificates for servers and clients of tests, made anew by each run."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12


@dataclass(frozen=True)
class Identity:
    """A key, the certificate about its owner, and those of whoever vouches for that, up to the root."""

    name: str
    private_key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...]

    def key(self, password: str | None = None) -> str:
        """The key as PEM."""
        form = serialization.PrivateFormat.PKCS8
        return self.private_key.private_bytes(serialization.Encoding.PEM, form, _encryption(password)).decode()

    @property
    def certificates(self) -> str:
        """The certificates as PEM, without that of the root, which others must trust by themselves."""
        return "".join(map(_pem, self.chain[:-1]))

    def store(self, password: str) -> bytes:
        """Everything as a PKCS12 store."""
        first, *others = self.chain
        name, key = self.name.encode(), self.private_key
        return pkcs12.serialize_key_and_certificates(name, key, first, others, _encryption(password))


class Authority:
    """Signs certificates; another authority vouches for it, or it does so itself."""

    def __init__(self, name: str, vouching: Authority | None = None) -> None:
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        signer = vouching or self
        own = signer._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self._chain: tuple[x509.Certificate, ...] = (own, *(vouching._chain if vouching else ()))

    @property
    def certificate(self) -> str:
        """Its own certificate as PEM."""
        return _pem(self._chain[0])

    def issue(self, name: str, *addresses: str) -> Identity:
        """An identity; a server has addresses, or names."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = x509.BasicConstraints(ca=False, path_length=None)
        return Identity(name, key, (self._signed(_named(name), key, leaf, addresses), *self._chain))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        constraints: x509.BasicConstraints,
        addresses: tuple[str, ...] = (),
    ) -> x509.Certificate:
        today = dt.datetime.now(dt.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - dt.timedelta(days=1))
            .not_valid_after(today + dt.timedelta(days=1))
            .add_extension(constraints, critical=True)
        )
        if addresses:
            builder = builder.add_extension(x509.SubjectAlternativeName(map(_address, addresses)), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    return (
        serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password.encode())
    )
