"""Modules that will be removed warn the programs that import them, and lead to the same classes until then."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import tidemill.datastream
from tidemill.common.moved import unpickle
from tidemill.connectors.sources import Split

DEPRECATED = sorted(
    path.stem for path in Path(tidemill.datastream.__path__[0]).glob("*.py") if "deprecated_module(" in path.read_text()
)


def test_they_are_known() -> None:
    assert DEPRECATED == ["idempotent_sink", "sinks", "sources", "two_phase_commit", "write_ahead_log"]


@pytest.mark.parametrize("name", DEPRECATED)
def test_an_import_warns_with_the_line_that_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"tidemill.datastream.{name}", raising=False)
    with pytest.warns(
        DeprecationWarning, match=rf"removed in Tidemill .*: import from tidemill.connectors.{name}"
    ) as told:
        exec(f"from tidemill.datastream.{name} import *")
    assert [warning.filename for warning in told] == ["<string>"]


@pytest.mark.parametrize("name", DEPRECATED)
def test_the_names_are_those_of_the_new_module(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = importlib.import_module(f"tidemill.datastream.{name}")
    new = importlib.import_module(f"tidemill.connectors.{name}")
    assert [each for each in old.__all__ if getattr(old, each) is not getattr(new, each)] == []


def test_a_stored_pickle_is_read_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(Split, protocol=0).replace(b"tidemill.connectors.sources", b"tidemill.datastream.sources")
    monkeypatch.delitem(sys.modules, "tidemill.datastream.sources", raising=False)
    assert unpickle(data) is Split  # a warning would be an error here


def test_a_program_sees_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import tidemill.datastream.sinks"], capture_output=True, text=True, check=True
    )
    assert "<string>:1: DeprecationWarning: tidemill.datastream.sinks is deprecated" in run.stderr
