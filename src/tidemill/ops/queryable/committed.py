"""Follows the committed epochs of a job, and looks up keys in the last one.

Everything is read from the directory of the job, without the driver and the workers. So lookups continue while the job
runs, fails, is restarted with another parallelism, or is stopped. The last epoch replaces the previous one atomically,
by one assignment: a lookup sees exactly one epoch.

Retention may delete a file while a lookup reads it. It deletes only files that the last epochs do not need, so the
lookup is repeated in the newest epoch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.checkpoint.names import manifest_name
from tidemill.checkpoint.restore import PieceCache, committed_pieces
from tidemill.errors import CheckpointError, SerializationError, TidemillError
from tidemill.ops.queryable.answer import Answer, Answers, PartSchema
from tidemill.ops.queryable.blocks import BlockCache
from tidemill.ops.queryable.errors import StateUnavailableError, UnknownJobError
from tidemill.ops.queryable.key_index import comparable_key
from tidemill.ops.queryable.placed import PieceIndexes
from tidemill.ops.queryable.view import QueryableState, View, view_of
from tidemill.state.codecs.plain_values import as_plain
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.stable_hash import stable_hash
from tidemill.state_processor.job_directory import JobDirectory

__all__ = ["CommittedStates"]

log = logging.getLogger(__name__)

#: Maximum number of attempts of a lookup if files are deleted meanwhile: each time the job has committed more epochs.
_TRIES: Final = 5
#: Every poll checks for the next slot. The last slot is searched at this interval, in case some were deleted meanwhile.
_LIST_SECONDS: Final = 1.0
#: Maximum number of schemas of returned parts that are remembered.
_SCHEMAS: Final = 4096


class CommittedStates:
    """The queryable states of a job as of its last committed epoch. Thread-safe.

    ``cache_bytes`` limits the memory that is used for them.

    >>> from tidemill.testing import JobHarness
    >>> def program(env, words):
    ...     words.map(lambda word: (word, len(word))).key_by(0).as_queryable_state("lengths")
    >>> with JobHarness(program, inputs=["words"]) as job:
    ...     job.epoch(words=["tide", "mill"])
    ...     states = CommittedStates(JobDirectory.open(job.storage))
    ...     answer = states.get("lengths", "tide")
    >>> answer.epoch, answer.plain()
    (1, ('tide', 4))
    """

    def __init__(
        self,
        directory: JobDirectory,
        *,
        cache_bytes: int = 256 << 20,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        # configuration
        self._directory = directory
        self._clock = clock
        # transient
        self._view: View | None = None
        self._blocks = BlockCache(cache_bytes)
        self._pieces = PieceCache()
        self._indexes = PieceIndexes()
        self._refreshing = threading.Lock()
        self._schemas: dict[bytes, PartSchema] = {}
        self._listed = 0.0

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self._directory.job_id

    def view(self) -> View:
        """Return the last epoch that was loaded. Raises :class:`StateUnavailableError` if there is none yet."""
        view = self._view
        if view is None or not (view.epoch or view.states):  # a driver may have claimed the job without an epoch yet
            raise StateUnavailableError(f"job {self.job_id} has not committed an epoch yet")
        return view

    def get(self, name: str, key: Any) -> Answer:
        """Look up a key in the state with this name, in the newest epoch."""
        self.refresh()
        return Answer(self.lookup(name, [(stable_hash(key), comparable_key(canonical_key(as_plain(key))))]))

    def lookup(self, name: str, keys: Sequence[tuple[int, Any]], *, at_least: int = 0, load: bool = True) -> Answers:
        """Look up keys, given by their stable hashes and in plain form, all in the last epoch that was loaded.

        If its slot is before ``at_least``, a newer epoch is searched for. Without ``load`` nothing is read, and
        :class:`~tidemill.ops.queryable.blocks.NotInMemoryError` is raised if a read would be necessary. If one of
        several keys cannot be read, the answer omits all of them, and they must be requested separately. Raises
        :class:`UnknownStateNameError`, and :class:`StateUnavailableError` if the state cannot be read.
        """
        if load and (self._view is None or self._view.slot < at_least):
            self.refresh()
        for attempt in range(_TRIES):
            view = self.view()
            try:
                answers = view.lookup(name, keys, self._blocks, self._clock(), load=load)
            except SerializationError as error:
                return self._without(view, name, keys, error)
            except CheckpointError as error:
                if attempt == _TRIES - 1 or not (self.refresh() or self._view is not view):
                    return self._without(view, name, keys, error)
            else:
                self._remember(answers)
                return answers
        raise AssertionError("unreachable")

    def _without(self, view: View, name: str, keys: Sequence[tuple[int, Any]], error: TidemillError) -> Answers:
        """Return the answer if one of the keys cannot be read: it omits all keys."""
        if len(keys) == 1:
            raise StateUnavailableError(
                f"state {name!r} of job {self.job_id}, epoch {view.epoch}, cannot be read: {error}"
            ) from error
        answers = view.tells_nothing(name, len(keys), self._clock())
        self._remember(answers)
        return answers

    def state(self, name: str) -> QueryableState:
        """Return the state with this name."""
        return self.view().state(name)

    def names(self) -> list[str]:
        """Return the names of the queryable states in the newest epoch."""
        self.refresh()
        return sorted(self.view().states)

    def schema(self, schema_id: bytes) -> PartSchema | None:
        """Return a schema of a recent answer."""
        return self._schemas.get(schema_id)

    def check_job(self, job_id: str) -> None:
        """Raise :class:`UnknownJobError` if this is not the id of the job."""
        if job_id != self.job_id:
            raise UnknownJobError(f"job {job_id} is not served here: this is the state of job {self.job_id}")

    def refresh(self) -> bool:
        """Load a newer epoch, and return whether there was one. If it cannot be read, the previous one remains."""
        with self._refreshing:
            for attempt in range(_TRIES):
                try:
                    return self._advance()
                except CheckpointError as error:  # the job has committed more epochs and deleted files being read
                    if attempt == _TRIES - 1:
                        log.warning("the last epoch of job %s cannot be queried: %s", self.job_id, error)
                        if self._view is None:
                            raise StateUnavailableError(str(error)) from error
        return False

    def poll(self) -> bool:
        """Call :meth:`refresh` if the next slot exists, and periodically in any case."""
        view, now = self._view, time.monotonic()
        if view is not None and now - self._listed < _LIST_SECONDS:
            try:
                if not self._directory.storage.exists(manifest_name(view.slot + 1)):
                    return False
            except CheckpointError:
                return False
        return self.refresh()

    def _advance(self) -> bool:
        directory, view = self._directory, self._view
        self._listed = time.monotonic()
        last = directory.log.last_slot()
        if last is None or (view is not None and last <= view.slot):
            return False
        head = directory.log.read(last)
        runs = committed_pieces(directory.storage, directory.log, head, self._pieces)
        self._view = view_of(directory.storage, head, runs, self._indexes)
        return True

    def _remember(self, answers: Answers) -> None:
        for schema in (answers.declared, *(part.schema for part in answers.parts)):
            if schema.id not in self._schemas:
                if len(self._schemas) >= _SCHEMAS:
                    self._schemas.clear()
                self._schemas[schema.id] = schema
