"""``python -m tidemill``: the command line, as ``tidemill`` is."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process; ends the process with an exit code."""
    try:
        from tidemill.ops.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name}: pip install 'tidemill[ops]'")
    app(prog_name="tidemill")


if __name__ == "__main__":
    main()
