"""What whoever starts a program sets for it: the command line, or a file that an environment variable names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidemill.common.configuration import Configuration

__all__ = ["CONFIGURATION_FILE", "configured_from_outside", "outer_configuration"]

#: The environment variable that may name a YAML file.
CONFIGURATION_FILE: Final = "TIDEMILL_CONF"

_given: Configuration | None = None


def outer_configuration() -> Configuration:
    """The settings that a program begins with, a copy: what the command line gives, else those of the file.

    As in Flink, what the program sets itself has precedence over them. Raises
    :class:`~tidemill.errors.ConfigurationError` for a file with an unknown key, or that cannot be read.

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
    """Let programs of this process begin with these settings, whatever the environment says."""
    global _given
    before, _given = _given, configuration
    try:
        yield
    finally:
        _given = before
