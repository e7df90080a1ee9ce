"""What chaos is made for: a job, what it talks to, the faults that it must stand, and what must be there at the end."""

from __future__ import annotations

import abc
import contextlib
import importlib
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

#: What can be chosen with ``--job``, and where it is.
VARIANTS: Final = {
    "state": "chaos.variant:StateVariant",
    "files": "chaos.job_files:FilesVariant",
    "postgres": "chaos.job_postgres:PostgresVariant",
    "kafka": "chaos.kafka_variant:KafkaVariant",
    "kafka-cluster": "chaos.kafka_variant:KafkaClusterVariant",
}


class Variant(abc.ABC):
    """One kind of job. A fault of its own is a method of that name with an underscore before it."""

    #: What drivers run: a module whose argument is the folder of the run.
    module: str
    #: What can happen, and how often in so many faults.
    faults: Mapping[str, int]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While the block runs, what the job talks to is there."""
        yield

    def own_fault(self, kind: str, dice: random.Random) -> str | None:
        """Make a fault that the run does not know; says what it did, or None if it could not be done."""
        done: str | None = getattr(self, f"_{kind}")(dice)
        return done

    def position(self, sources: Mapping[str, Any]) -> int:
        """How many records the job has read, by the positions of its sources."""
        return int(sources.get("numbers", 0))

    @abc.abstractmethod
    def differences(self, records: int) -> Iterator[str]:
        """Everything that is not as it must be after so many records; nothing, if all is well."""


class StateVariant(Variant):
    """Every kind of state, windows and timers, with files as sinks."""

    module = "chaos.job"
    #: What costs the job its driver comes less often than the rest.
    faults: Mapping[str, int] = {
        "kill_worker": 3,
        "kill_executor": 2,
        "damage_garbage": 3,
        "rescale": 3,
        "slow_storage": 2,
        "fill_disk": 2,
        "kill_driver": 2,
        "stop_driver": 1,
    }

    def differences(self, records: int) -> Iterator[str]:
        from chaos.verdict import differences

        return differences(self.folder, records)


def variant_class(name: str) -> type[Variant]:
    """The kind of job that has this name."""
    module, _, found = VARIANTS[name].partition(":")
    chosen: type[Variant] = getattr(importlib.import_module(module), found)
    return chosen
