"""Deprecation warnings. ``docs/versions.md`` describes the policy and lists the deprecated names."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["deprecated_module"]


def deprecated_module(old: str, new: str, *, removed_in: str) -> None:
    """Warn the importer of the calling module, which only re-exports the names of another module.

    There is no warning if Tidemill itself imports it, as it does for a stored pickle that refers to the old module.
    """
    importer = _importer(sys._getframe(1))
    if importer is not None and importer.f_globals.get("__name__", "").startswith("tidemill."):
        return
    message = f"{old} is deprecated and will be removed in Tidemill {removed_in}: import from {new} instead"
    # 1 is this function, 2 the deprecated module, 3 its importer: `warnings` does not count the frames in between.
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def _importer(module: FrameType) -> FrameType | None:
    """The frame that imports a module. Like ``warnings``, this skips the frames of the import system."""
    frame = module.f_back
    while frame is not None and "importlib" in frame.f_code.co_filename and "_bootstrap" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame
