"""Where in the user's program something was defined."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import tidemill

#: Where the code of this package is: frames of other files are the user's.
PACKAGE: Final = str(Path(tidemill.__file__).parent)


def find_user_line() -> str:
    """The first stack frame outside this package, as ``file.py:12``: where the user created the operator."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((PACKAGE, "<string>")):
            return f"{filename}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<unknown>"
