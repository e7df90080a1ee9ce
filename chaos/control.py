"""What the run tells the job's processes, as small files in a folder that all of them see."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tidemill.checkpoint.storage.local import LocalStorage

#: Names the folder, in the environment of drivers and workers.
VARIABLE: Final = "TIDEMILL_CHAOS"
#: The longest that one call of a slow storage waits.
_SLOWEST: Final = 0.4


class Control:
    """The folder. The run writes, drivers and workers read; each file appears whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        return self._folder

    def allow(self, records: int, *, final: bool = False) -> None:
        """The job may read the first so many records; with ``final`` there are no more."""
        self._put("limit", f"{records} {int(final)}")

    def allowed(self) -> tuple[int, bool]:
        """How many records there are by now, and whether that is all."""
        records, final = (self._get("limit") or "0 0").split()
        return int(records), final == "1"

    def ask_for(self, number: int, parallelism: int) -> None:
        """The ``number``-th wish for another parallelism."""
        self._put("parallelism", f"{number} {parallelism}")

    def wish(self) -> tuple[int, int]:
        """The last wish: its number, from 1, and the parallelism."""
        number, parallelism = (self._get("parallelism") or "0 0").split()
        return int(number), int(parallelism)

    def slow_down(self, *, slow: bool) -> None:
        """Storage is slow from now on, or no more."""
        if slow:
            self._put("slow", "")
        else:
            (self._folder / "slow").unlink(missing_ok=True)

    def is_slow(self) -> bool:
        """Whether storage is slow."""
        return (self._folder / "slow").exists()

    def _put(self, name: str, text: str) -> None:
        new = self._folder / f".{name}"
        new.write_text(text)
        new.replace(self._folder / name)

    def _get(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return None


def make_storage_slow_on_demand() -> None:
    """Every call of a local storage in this process waits a little while the run wants it to."""
    folder = os.environ.get(VARIABLE)
    if folder is None or hasattr(LocalStorage.create, "chaos"):
        return
    control, dice = Control(Path(folder)), random.Random()

    def slowed(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            if control.is_slow():
                time.sleep(dice.random() * _SLOWEST)
            return call(*arguments, **options)

        wrapper.chaos = True  # type: ignore[attr-defined]
        return wrapper

    for name in ("create", "write", "read", "list", "delete"):
        setattr(LocalStorage, name, slowed(getattr(LocalStorage, name)))
