"""No test of operations sees, or changes, what drivers of this machine have left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.datastream.environment.outer_configuration import CONFIGURATION_FILE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where drivers of this test are recorded: nothing of the machine's own is seen, or changed."""
    state = tmp_path / "state-home"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.delenv(CONFIGURATION_FILE, raising=False)
    return state / "tidemill"
