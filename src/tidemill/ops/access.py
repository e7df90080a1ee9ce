"""Access control for the servers of this process: bind addresses and ports, accepted host names, tokens."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import stat
import time
from pathlib import Path
from typing import Final

from tidemill.errors import ConfigurationError

__all__ = ["host_of", "is_loopback", "ports_of", "read_token", "same_secret"]

#: How long to wait for another process to write the token into a file that it just created.
_WRITE_SECONDS: Final = 0.5


def is_loopback(host: str) -> bool:
    """Whether a name or address is a loopback address, which only this machine can reach.

    >>> [is_loopback(host) for host in ("127.0.0.2", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(header: str) -> str:
    """Return the name or address in a ``Host`` header, without the port.

    >>> host_of("localhost:8081"), host_of("[::1]:8081"), host_of("example.org")
    ('localhost', '::1', 'example.org')
    """
    name = header.rpartition(":")[0] if re.search(r":\d+$", header) else header
    return name.strip("[]").lower()


def ports_of(text: str, key: str) -> list[int]:
    """Return the ports that an option specifies, in the order in which to try them.

    >>> ports_of("9249", "rest.bind-port"), ports_of("9250-9252", "rest.bind-port")
    ([9249], [9250, 9251, 9252])
    """
    first, _, last = text.strip().partition("-")
    try:
        ports = list(range(int(first), int(last or first) + 1))
    except ValueError:
        ports = []
    if not ports or ports[0] < 0 or ports[-1] > 65535:
        raise ConfigurationError(
            f"Invalid value {text!r} for configuration key '{key}': it must be a port, or a range of ports such as "
            "'9250-9260'."
        )
    return ports


def same_secret(given: str, expected: str) -> bool:
    """Whether two secrets are equal, compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def read_token(where: str | None, key: str) -> str | None:
    """Return the token that an option refers to: ``env:NAME`` or ``file:PATH``.

    A file that does not exist is created with 256 random bits, accessible only by its owner. A file that other users
    can access is rejected. A token in the option itself is rejected too, because it would be visible wherever the
    configuration is. Raises :class:`ConfigurationError`.
    """
    if where is None:
        return None
    kind, _, name = where.partition(":")
    if kind == "env" and name:
        return os.environ.get(name) or _not_found(key, f"there is no environment variable {name}")
    if kind != "file" or not name:
        raise ConfigurationError(f"{key} must specify where the token is stored: 'env:NAME' or 'file:PATH'")
    try:
        return _from_file(Path(name), key)
    except OSError as error:
        return _not_found(key, str(error))


def _from_file(path: Path, key: str) -> str:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigurationError(
                f"{key}: {path} can be read by others; restrict access with 'chmod 600 {path}'"
            ) from None
        return _written(path) or _not_found(key, f"{path} is empty")
    token = secrets.token_hex(32)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{token}\n")
    except OSError:
        path.unlink()  # an empty file looks like a token that another process is about to write
        raise
    return token


def _written(path: Path) -> str:
    """Return the content of a token file. If it is empty, wait: another process may be about to write it."""
    until = time.monotonic() + _WRITE_SECONDS
    while not (text := path.read_text(encoding="utf-8").strip()) and time.monotonic() < until:
        time.sleep(0.01)
    return text


def _not_found(key: str, reason: str) -> str:
    raise ConfigurationError(f"{key} cannot be found: {reason}")
