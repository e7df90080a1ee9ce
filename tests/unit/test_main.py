"""`python -m tidemill` where the command line's packages are not installed."""

from __future__ import annotations

import sys

import pytest

from tidemill.__main__ import main


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidemill.ops.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"needs typer: pip install 'tidemill\[ops\]'"):
        main()
