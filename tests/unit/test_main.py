"""`python -m tidemill` before there is a command line: its packages are missing, or it is interrupted."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pytest

from tidemill.__main__ import main


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidemill.ops.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"needs typer: pip install 'tidemill\[ops\]'"):
        main()


def test_an_immediate_interrupt_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> None:
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tidemill.ops.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
