"""How names that will be removed announce it. ``docs/versions.md`` has the rule, and lists them."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["deprecated_module"]


def deprecated_module(old: str, new: str, *, removed_in: str) -> None:
    """Called by a module that only leads to another one: warn whoever imports it.

    There is no warning if Tidemill itself imports it, as it does for a stored pickle that names the old module.
    """
    importer = _importer(sys._getframe(1))
    if importer is not None and importer.f_globals.get("__name__", "").startswith("tidemill."):
        return
    message = f"{old} is deprecated and will be removed in Tidemill {removed_in}: import from {new} instead"
    # 1 is this function, 2 the deprecated module, 3 what imports it: `warnings` does not count the frames in between.
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def _importer(module: FrameType) -> FrameType | None:
    """The frame that imports a module; the import system's own frames are left out, as by ``warnings``."""
    frame = module.f_back
    while frame is not None and "importlib" in frame.f_code.co_filename and "_bootstrap" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame
