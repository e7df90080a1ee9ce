"""Manifests, pieces and storages that several tests of the checkpoint layer start from."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable

from tidemill.checkpoint.model import (
    Ack,
    Attempt,
    Epoch,
    Lineage,
    Manifest,
    Piece,
    RunRef,
    SectionInfo,
    Slot,
    SubtaskId,
)
from tidemill.checkpoint.storage.storages import MemoryStorage
from tidemill.errors import CheckpointError
from tidemill.state.keys.key_groups import KeyGroup, Subtask

JOB = "wordcount"


def piece(data: bytes = b"delta", *, file: str | None = None, chain: str = "count", subtask: int = 0) -> Piece:
    """A piece with this content, inline or (already stored) in a file."""
    return Piece(
        subtask=subtask,
        chain=chain,
        length=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sections=(SectionInfo("count", "sum", KeyGroup(0), KeyGroup(63), 1),),
        file=file,
        data=data if file is None else None,
    )


def ack(
    chain: str,
    subtask: int,
    *,
    attempt: str = "",
    consumed: dict[SubtaskId, Attempt] | None = None,
    pieces: Iterable[Piece] = (),
    epoch: int = 1,
    rerun: int = 0,
) -> Ack:
    """An ack of epoch 1, run 0, whose attempt is named after the subtask by default."""
    return Ack(
        subtask=SubtaskId(chain, Subtask(subtask)),
        attempt=Attempt(attempt or f"{chain}{subtask}"),
        epoch=Epoch(epoch),
        rerun=rerun,
        consumed=consumed or {},
        pieces=tuple(pieces),
    )


def full_manifest() -> Manifest:
    """A manifest in which every field has a value of its own, including values JSON lacks."""
    return Manifest(
        kind="epoch",
        job_id=JOB,
        lineage=Lineage("000000000001-0123456789abcdef"),
        slot=Slot(9),
        epoch=Epoch(8),
        rerun=2,
        clock=1_700_000_000_000,
        finished=True,
        parallelism={"source": 1, "zähler": 2},
        max_parallelism={"zähler": 128},
        attempts={"source": (Attempt("a"),), "zähler": (Attempt("b"), Attempt("c"))},
        watermarks={"source": (-(2**63),), "zähler": (5, 2**63 - 1)},
        times={"source": ([["p", 7, True, 5, "AA=="], [None, -1, False, None, None]],), "zähler": (None, [])},
        next_timer=0,
        sources={"s": {"positions": {0: 7, 1: None}, "raw": b"\x00\xff", "pair": (1, [2.5]), "$odd": {"$t": "no tag"}}},
        spark={"batch_id": 3, "offsets": 'v1\n{"batch":3}\n{"logOffset":9}', "files": {"metadata": b"{}"}},
        pieces=(piece(b"one"), piece(b"two", file="state/l/1.tms", subtask=1), piece(b"")),
        runs=(RunRef(Epoch(4), snapshot="snap-1", bytes=1 << 40), RunRef(Epoch(8), slot=Slot(9), bytes=6)),
        committables={"sink": {0: (b"x", b""), 3: ()}},
        operators={"count": {"state": ("map", "string")}},
        metrics={"records": 3.0, "rate": 0.1},
        operators_slot=Slot(2),
        checkpoints=(Slot(3), Slot(9)),
    )


def counting_tokens() -> Callable[[], str]:
    """Tokens 0, 1, 2 ... in the place of random ones."""
    numbers = itertools.count()
    return lambda: f"{next(numbers):016x}"


class KilledError(Exception):
    """Stands for the death of the process."""


class UnreliableStorage(MemoryStorage):
    """Memory storage with the failures of F7: what it does next is set by the test."""

    def __init__(self) -> None:
        super().__init__()
        #: The next creates: "lost" does nothing and fails; "unknown" succeeds and fails; "" works.
        self.creates: list[str] = []
        self.hidden_from_list: set[str] = set()
        self.deletes_left: int | None = None

    def create(self, name: str, data: bytes) -> None:
        fault = self.creates.pop(0) if self.creates else ""
        if fault == "lost":
            raise CheckpointError(f"timeout while creating {name}")
        super().create(name, data)
        if fault == "unknown":
            raise CheckpointError(f"timeout after creating {name}")

    def list(self, prefix: str = "") -> list[str]:
        return [name for name in super().list(prefix) if name not in self.hidden_from_list]

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            if self.deletes_left is not None:
                if self.deletes_left == 0:
                    raise KilledError
                self.deletes_left -= 1
            super().delete([name])
