"""The command line as a test calls it, and programs and jobs for it to work on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.ops.cli.words import words_job
from tidemill.ops.cli.app import app

#: Calls the command line in this process: what it printed, and its exit code.
Tidemill = Callable[..., Result]


@pytest.fixture
def tidemill(monkeypatch: pytest.MonkeyPatch) -> Tidemill:
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str | os.PathLike[str]) -> Result:
        return CliRunner().invoke(app, list(map(str, arguments)), prog_name="tidemill")

    return call


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the checkpoints of a job `words` that has ended, after epochs of two lines each."""
    directory = tmp_path_factory.mktemp("checkpoints")
    words_job(directory, "words", ["to be", "or", "not", "to", "be", "question"])
    return directory
