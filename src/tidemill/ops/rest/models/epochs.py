"""Committed epochs."""

from __future__ import annotations

from typing_extensions import TypedDict

Epoch = TypedDict(
    "Epoch",
    {
        "epoch": int,
        "ended": int,
        "duration": float,
        "phases": dict[str, float],
        "records": int,
        "delta-bytes": int,
        "state-entries": int,
        "runs": int,
    },
)


class Epochs(TypedDict):
    """Committed epochs, oldest first."""

    epochs: list[Epoch]
