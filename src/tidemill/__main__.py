"""``python -m tidemill``: the same command line as ``tidemill``."""

from __future__ import annotations

import sys
from typing import Final

from tidemill.python_versions import SAFE_PATH

#: The exit code that shells use for an interrupted process.
_INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line and end the process with an exit code."""
    try:
        from tidemill.ops.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name}: pip install 'tidemill[ops]'")
    except KeyboardInterrupt:  # imports take a moment
        sys.exit(_INTERRUPTED)
    app(prog_name="tidemill")


if __name__ == "__main__":
    if not SAFE_PATH:
        # "python -m" puts the working directory first. Files in it, such as a rich.py, are not meant for this program.
        sys.path.pop(0)
    main()
