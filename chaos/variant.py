"""Variants of the chaos test: a job, its external systems, the faults it must survive, and the expected results."""

from __future__ import annotations

import abc
import contextlib
import importlib
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

#: The choices of ``--job``, and their classes.
VARIANTS: Final = {
    "state": "chaos.variant:StateVariant",
    "files": "chaos.job_files:FilesVariant",
    "postgres": "chaos.job_postgres:PostgresVariant",
    "kafka": "chaos.kafka_variant:KafkaVariant",
    "kafka-cluster": "chaos.kafka_variant:KafkaClusterVariant",
}


class Variant(abc.ABC):
    """A kind of job. Its specific faults are methods, named after the fault with a leading underscore."""

    #: The module that drivers run. Its argument is the folder of the run.
    module: str
    #: The possible faults, with their relative frequency.
    faults: Mapping[str, int]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the external systems of the job while the block runs."""
        yield

    def own_fault(self, kind: str, dice: random.Random) -> str | None:
        """Inject a fault that is specific to this variant. Returns a description, or None if it was not possible."""
        done: str | None = getattr(self, f"_{kind}")(dice)
        return done

    def position(self, sources: Mapping[str, Any]) -> int:
        """The number of records that the job has read, from the positions of its sources."""
        return int(sources.get("numbers", 0))

    @abc.abstractmethod
    def differences(self, records: int) -> Iterator[str]:
        """All differences from the expected results after ``records`` records."""


class StateVariant(Variant):
    """All kinds of state, windows and timers, with file sinks."""

    module = "chaos.job"
    #: Faults that cost the job its driver are less frequent than the others.
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
    """The variant with this name."""
    module, _, found = VARIANTS[name].partition(":")
    chosen: type[Variant] = getattr(importlib.import_module(module), found)
    return chosen
