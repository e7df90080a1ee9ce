"""The epoch loop: take input, run an epoch on the engine, commit it, repeat.

In jobs without a streaming query, the driver only assigns splits and files, which workers read. Such jobs call
:meth:`EpochLoop.run`, which decides when the next epoch is due. If another component decides (a streaming query that
delivers batches, a harness, a simulation), it calls :meth:`EpochLoop.step` for each epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tidemill.checkpoint.model import Manifest
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.job import StopSignal
from tidemill.runtime.driver.rescaling import JobParallelism
from tidemill.runtime.driver.savepoints import Savepoints
from tidemill.runtime.driver.split_input import SplitInput

#: Completes the input of an epoch, which consists of splits, with the batch of a streaming query.
Complete = Callable[[EpochInput], EpochInput]

#: How often a job without input checks for new input, in seconds.
_POLL_SECONDS: Final = 0.02


def _as_it_is(inputs: EpochInput) -> EpochInput:
    return inputs


class EpochLoop:
    """The epochs of one execution, one after the other. Not thread-safe."""

    def __init__(
        self,
        coordinator: Coordinator,
        sources: SplitInput,
        parallelism: JobParallelism,
        savepoints: Savepoints,
        *,
        pause: float = 0.0,
    ) -> None:
        """The coordinator is open, and ``sources`` continue from its head. ``pause`` is the minimum number of seconds
        between two epochs. A component that calls :meth:`step` itself must check :attr:`seconds_to_rest`."""
        self._coordinator = coordinator
        self._sources = sources
        self._parallelism = parallelism
        self._savepoints = savepoints
        self.pause = pause
        self._rested = 0.0

    @property
    def has_input(self) -> bool:
        """Whether an epoch would have input now."""
        return self._sources.available()

    @property
    def finished(self) -> bool:
        """Whether all sources have ended."""
        return self._sources.finished

    @property
    def seconds_to_rest(self) -> float:
        """The seconds until the next epoch may run; it may run now if this is 0 or less."""
        return self._rested - time.monotonic()

    def due(self) -> bool:
        """Whether input, a timer or a rescale request is waiting for an epoch."""
        return self._sources.available() or self._coordinator.timer_due() or self._parallelism.pending

    def run(self, stop: StopSignal) -> None:
        """Run epochs until the sources end, the job ends with a savepoint, or ``stop`` is set, which raises."""
        while True:
            stop.check()
            if self._savepoints.pending and self.take_savepoints(stop.set):
                return
            self._coordinator.check_owner()
            if (left := self.seconds_to_rest) > 0:
                stop.wait(min(left, _POLL_SECONDS))
                continue
            if not (self.finished or self.due()):
                stop.wait(_POLL_SECONDS)
                continue
            manifest = self.step()
            if manifest is not None and manifest.finished:
                return

    def step(self, complete: Complete = _as_it_is) -> Manifest | None:
        """Take the next input, run an epoch with it and commit it. Raises what a user function raised.

        Returns the manifest, or None if no epoch ran: a BATCH job runs as one epoch once all of its input is available.
        """
        inputs = complete(self._sources.next_input())
        if self._sources.whole and not inputs.last:
            return None
        manifest = self._coordinator.run_epoch(inputs)
        self._sources.committed()
        self._rested = time.monotonic() + self.pause
        return manifest

    def drain(self, complete: Complete = _as_it_is) -> Manifest:
        """Run an epoch that reads nothing and advances event time to its end."""
        manifest = self._coordinator.run_epoch(complete(self._sources.end_of_input()))
        self._sources.committed()
        return manifest

    def take_savepoints(self, cancel: Callable[[], object], drain: Callable[[], object] | None = None) -> bool:
        """Begin the requested savepoints; return whether the job is over. Must be called between two epochs.

        ``cancel`` requests that the job ends as a cancelled one; ``drain`` is called instead of :meth:`drain`.
        """
        return self._savepoints.take(self._coordinator.manifests, drain or self.drain, cancel)

    def close(self) -> None:
        """Release the sources."""
        self._sources.close()
