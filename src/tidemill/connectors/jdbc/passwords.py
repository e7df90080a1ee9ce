"""Masks passwords in JDBC URLs."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["hide_password"]

_PASSWORD: Final = re.compile(r"(?i)([?&;]\s*(?:password|sslpassword)\s*=)(?:\{(?:[^}]|\}\})*\}|[^&;]*)")
_IN_AUTHORITY: Final = re.compile(r"(//[^/@:]*):[^/@]*@")
_ORACLE: Final = re.compile(r"^(jdbc:oracle:\w+:[^/@]*)/[^@]*@")


def hide_password(url: str) -> str:
    """Return a URL with passwords masked.

    >>> hide_password("jdbc:postgresql://localhost/shop?user=me&password=secret&ssl=true")
    'jdbc:postgresql://localhost/shop?user=me&password=***&ssl=true'
    >>> hide_password("jdbc:oracle:thin:me/secret@//localhost/shop")
    'jdbc:oracle:thin:me/***@//localhost/shop'
    """
    return _IN_AUTHORITY.sub(r"\1:***@", _PASSWORD.sub(r"\1***", _ORACLE.sub(r"\1/***@", url)))
