"""Proves to a driver that a request comes from its own user on its own machine.

A client of the REST server may write savepoints only below configured directories: its token may have been passed on,
with the address of a page for example. The user who runs the driver may write anywhere. So the command line leaves a
file in the directory of records, which only that user can write, with the target of the request, and names the file.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidemill.ops.drivers.records import records_directory

__all__ = ["PROOF_HEADER", "is_proven", "proven"]

#: The header of a request that names the file.
PROOF_HEADER: Final = "Tidemill-Owner-Proof"
_NAME: Final = re.compile(r"[0-9a-f]{32}")


@contextmanager
def proven(target: str) -> Iterator[str]:
    """Prove while the block runs that the owner requests ``target``. Yields the value of the header."""
    name = secrets.token_hex(16)
    path = _path(name)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(target)
    try:
        yield name
    finally:
        path.unlink(missing_ok=True)


def is_proven(name: str | None, target: str) -> bool:
    """Whether the value of the header proves that the owner of this process requests ``target``."""
    if name is None or not _NAME.fullmatch(name):
        return False
    try:
        handle = os.open(_path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        return os.fstat(handle).st_uid == os.geteuid() and file.read() == target


def _path(name: str) -> Path:
    return records_directory() / f"request-{name}"
