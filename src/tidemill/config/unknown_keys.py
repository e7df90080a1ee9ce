"""What happens to configuration keys that nobody knows: a warning, or an error if the configuration asks for it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from tidemill.config import REGISTRY
from tidemill.errors import ConfigurationError, ConfigurationWarning

__all__ = ["check_keys", "unknown_keys"]


def unknown_keys(keys: Iterable[str]) -> list[str]:
    """A message about each key that neither Tidemill nor Flink knows, with the most similar known key.

    >>> unknown_keys(["parallelism.default", "paralelism.default"])
    ["Unknown configuration key 'paralelism.default'. Did you mean 'parallelism.default'? Begin keys of your own with \
'user.', and Spark's with 'spark.'."]
    """
    return [REGISTRY.unknown(key) for key in sorted(keys) if not REGISTRY.is_known(key)]


def check_keys(keys: Iterable[str], *, strict: bool) -> None:
    """Warns of each unknown key, at the caller's line in the program; if ``strict``, raises an error for the first."""
    for message in unknown_keys(keys):
        if strict:
            raise ConfigurationError(message)
        warnings.warn(message, ConfigurationWarning, stacklevel=_program_level())


def _program_level() -> int:
    """The ``stacklevel`` of the first caller outside this package, counted from the function that calls this one."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidemill."):
        level, frame = level + 1, frame.f_back
    return level
