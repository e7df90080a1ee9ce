"""How a chaos run treats its drivers, without any."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from chaos import run
from chaos.job import JOB_ID
from chaos.run import Plan, Run
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import ExitCode


class SlowDriver:
    """Claims the job some looks after it was started, as a driver does that has to start Spark first."""

    story: ClassVar[list[str]] = []

    def __init__(self, module: str, folder: Path, control: Any, number: int) -> None:
        self.number = number
        self.story.append(f"{number} starts")
        self._log = ManifestLog(LocalStorage(folder / "checkpoints" / JOB_ID, durable=False), JOB_ID)
        self._looks = 0
        self._stopped = False
        self._code: int | None = None

    @property
    def ended(self) -> int | None:
        self._looks += 1
        if self._looks == 3 and not self._stopped:
            self._log.open_lineage()
            self.story.append(f"{self.number} claims")
        return self._code

    def stop(self) -> None:
        self.story.append(f"{self.number} is paused")
        self._stopped = True

    def resume(self) -> None:
        self._code = ExitCode.FENCED

    def end(self) -> None:
        pass

    def tail(self) -> str:
        return ""


def test_a_driver_is_paused_only_when_it_has_claimed_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paused before that, it would claim the job when it resumes: it is no zombie, and its successor is fenced."""
    monkeypatch.setattr(run, "Driver", SlowDriver)
    monkeypatch.setattr(run, "_LAST_WAIT", 1.0)
    monkeypatch.setattr(SlowDriver, "story", [])
    running = Run(Plan(seed=1, minutes=0, folder=tmp_path), print)
    running._start()
    done = running._stop_driver()
    assert SlowDriver.story == ["1 starts", "1 claims", "1 is paused", "2 starts", "2 claims"]
    assert done is not None
    assert running._problems == []
