"""The configuration that a program is started with, from the command line or from a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidemill.common.configuration import Configuration

__all__ = ["CONFIGURATION_FILE", "configured_from_outside", "outer_configuration"]

#: The environment variable with the path of a YAML file.
CONFIGURATION_FILE: Final = "TIDEMILL_CONF"

_given: Configuration | None = None


def outer_configuration() -> Configuration:
    """A copy of the settings that the program is started with: those of the command line, else those of the file.

    As in Flink, settings in the program itself take precedence. Raises :class:`~tidemill.errors.ConfigurationError` if
    the file contains an invalid value or cannot be read.

    >>> with configured_from_outside(Configuration().set_string("parallelism.default", "3")):
    ...     outer_configuration()
    Configuration({'parallelism.default': '3'})
    """
    if _given is not None:
        return Configuration(_given)
    path = os.environ.get(CONFIGURATION_FILE)
    return Configuration.load_yaml(path) if path else Configuration()


@contextmanager
def configured_from_outside(configuration: Configuration) -> Iterator[None]:
    """Start programs of this process with these settings, regardless of the environment variable."""
    global _given
    before, _given = _given, configuration
    try:
        yield
    finally:
        _given = before
