"""Imports the client library of an external system, which is optional: only programs that use the connector need it."""

from __future__ import annotations

import importlib
from typing import Any

from tidemill.errors import ConfigurationError

__all__ = ["client_library"]


def client_library(module: str, package: str, extra: str, purpose: str) -> Any:
    """Import a module of a client library.

    Raises :class:`ConfigurationError` with the extra that installs the library if it is missing.

    >>> client_library("json", "json", "json", "reading JSON").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{purpose} needs the package {package}, on the driver and all workers: pip install 'tidemill[{extra}]'"
        ) from error
