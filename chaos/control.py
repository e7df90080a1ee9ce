"""Control of the job's processes by the run, through small files in a shared folder."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tidemill.checkpoint.storage.local import LocalStorage

#: The environment variable of drivers and workers that contains the folder.
VARIABLE: Final = "TIDEMILL_CHAOS"
#: The longest delay of one call to a slow storage, in seconds.
_SLOWEST: Final = 0.4


class Control:
    """The shared folder. The run writes files, drivers and workers read them. Files are replaced atomically."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        return self._folder

    def allow(self, records: int, *, final: bool = False) -> None:
        """Allow the job to read the first ``records`` records. With ``final``, there are no more."""
        self._put("limit", f"{records} {int(final)}")

    def allowed(self) -> tuple[int, bool]:
        """The number of records available so far, and whether that number is final."""
        records, final = (self._get("limit") or "0 0").split()
        return int(records), final == "1"

    def ask_for(self, number: int, parallelism: int) -> None:
        """Send the ``number``-th request for another parallelism."""
        self._put("parallelism", f"{number} {parallelism}")

    def wish(self) -> tuple[int, int]:
        """The latest request: its number, starting at 1, and the parallelism."""
        number, parallelism = (self._get("parallelism") or "0 0").split()
        return int(number), int(parallelism)

    def slow_down(self, *, slow: bool) -> None:
        """Make storage slow, or fast again."""
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
    """Patch the local storage of this process: each call is delayed while the run requests slow storage."""
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
