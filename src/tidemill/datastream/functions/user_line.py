"""Finds the line of the user's program that calls the API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import tidemill

#: The directory of this package. Stack frames of other files belong to the user.
PACKAGE: Final = str(Path(tidemill.__file__).parent)


def find_user_line() -> str:
    """The first stack frame outside this package, as ``file.py:12``. This is where the user created the operator."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((PACKAGE, "<string>")):
            return f"{filename}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<unknown>"
