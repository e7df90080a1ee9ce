"""An object whose pickle reports that it was unpickled."""

from __future__ import annotations

from typing import Any

SPRUNG: list[str] = []


def spring() -> Trap:
    SPRUNG.append("sprung")
    return Trap()


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return spring, ()
