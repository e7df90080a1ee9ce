"""Runs the commits of sinks on the driver, or lets workers run them, within a deadline.

On the driver, all calls of committers come from one thread, so that a call that never returns can be abandoned.
``runtime/task/commit_task.py`` is what a worker does.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.connectors.sinks import Committed, Committer, CommitterContext
from tidemill.errors import CheckpointError, FailureSite, JobExecutionError, TidemillError
from tidemill.faults import InjectedFaultError
from tidemill.python_versions import add_note
from tidemill.runtime.batch.failures import Failure
from tidemill.runtime.driver.deadline import Deadline, DeadlineExceededError
from tidemill.runtime.task.commit_task import committer_failed, operators_of, sink_named
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.sink_log import StoredSinkLog

log = logging.getLogger(__name__)

#: Commits of fewer bytes run on the driver. A Spark job takes about 50 ms to start; in that time the driver can read
#: and send several times this amount.
_ON_DRIVER: Final = 256 << 10

#: Runs commit tasks on workers, one per (operator uid, subtask), and returns their results.
CommitRunner = Callable[[Sequence[tuple[str, int, bytes]]], list[bytes]]


class SinkCommits:
    """The committers of a job's sinks on the driver, by operator uid."""

    def __init__(
        self,
        bundle: JobBundle,
        committers: Mapping[str, Committer],
        on_workers: CommitRunner,
        interrupt: Callable[[], None],
        timeout: float | None = None,
    ) -> None:
        """``timeout`` is in seconds; without it, all calls run in the thread of the caller. ``interrupt`` makes the
        commits that are running on workers fail soon."""
        # configuration
        self._bundle = bundle
        self._operators = operators_of(bundle.plan)
        self._committers = committers
        self._on_workers = on_workers
        self._interrupt = interrupt
        # transient
        self._opened: dict[str, Committer] = {}
        self._deadline = Deadline(timeout, f"tidemill-commit-{bundle.job_id}")

    def open(self) -> None:
        """Open all committers. :meth:`close` closes every committer whose ``open`` was called, even if it failed."""
        for uid, committer in self._committers.items():
            context = CommitterContext(self._bundle.job_id, uid, StoredSinkLog(self._bundle.storage, uid))
            self._opened[uid] = committer
            self._call(uid, "open", partial(committer.open, context))

    def commit(self, manifest: Manifest, *, again: bool, may_be_gone: bool) -> None:
        """Commit the committables of an epoch: first those on the driver, then those on workers, in parallel.

        ``may_be_gone`` allows a sink that is no longer part of the program.
        """
        tasks: list[tuple[str, int, bytes]] = []
        for uid, by_subtask in manifest.committables.items():
            committer = self._committers.get(uid)
            if committer is None:
                if may_be_gone and uid not in self._operators:
                    continue  # the check before the start has reported it
                raise CheckpointError(
                    f"epoch {manifest.epoch} has results to commit for the sink with uid {uid!r}, "
                    "which is no longer part of the program"
                )
            parts = [Committed(manifest.epoch, subtask, data, again) for subtask, data in sorted(by_subtask.items())]
            if committer.on_workers and sum([committer.weight(part) for part in parts]) >= _ON_DRIVER:
                tasks += [(uid, part.subtask, pickle.dumps((uid, part), 5)) for part in parts]
            else:
                self._call(uid, "commit", partial(committer.commit, parts), manifest.epoch)
        if tasks:
            self._commit_on_workers(tasks, manifest.epoch)

    def discard(self, manifest: Manifest, lineage: str) -> None:
        """Make sinks remove the leftovers of uncommitted attempts of ``lineage`` and older lineages."""
        for uid, committer in self._committers.items():
            in_use = [data for entries in manifest.committables.get(uid, {}).values() for data in entries]
            self._call(uid, "discard", partial(committer.discard, in_use, lineage))

    def abandon(self) -> None:
        """Stop waiting for sinks, because the job is ending. Called from another thread."""
        self._deadline.abandon()

    def close(self) -> list[Exception]:
        """Close the committers in reverse order, including one whose ``open`` failed; return the exceptions raised."""
        errors: list[Exception] = []
        for uid, committer in reversed(self._opened.items()):
            try:
                self._call(uid, "close", committer.close)
            except Exception as error:
                errors.append(error)
        self._opened = {}
        self._deadline.close()
        return errors

    def _call(self, uid: str, method: str, act: Callable[[], None], epoch: Epoch | None = None) -> None:
        operator = self._operators.get(uid)
        try:
            self._deadline.run(act)
        except DeadlineExceededError as error:
            raise self._too_late(f"{sink_named(uid, operator)} did not return from {method}()", epoch) from error
        except InjectedFaultError:  # simulates a crash
            raise
        except TidemillError as error:
            add_note(error, f"raised by {method}() of the committer of {sink_named(uid, operator)}")
            raise
        except BaseException as error:
            raise committer_failed(uid, operator, method, error, epoch) from error

    def _commit_on_workers(self, tasks: Sequence[tuple[str, int, bytes]], epoch: Epoch) -> None:
        names = ", ".join(sorted({sink_named(uid, self._operators.get(uid)) for uid, _, _ in tasks}))
        try:
            with self._deadline.watching(self._interrupt):
                answers = self._on_workers(tasks)
        except DeadlineExceededError as error:
            raise self._too_late(f"{names} did not commit", epoch) from error
        for answer in answers:
            failure: Failure | None = pickle.loads(answer)
            if failure is not None:
                raise failure.to_error()

    def _too_late(self, what: str, epoch: Epoch | None) -> JobExecutionError:
        of_epoch = "" if epoch is None else f", epoch {epoch},"
        error = JobExecutionError(
            f"{what}{of_epoch} within {self._deadline.seconds:g} s (sink.committer.timeout). Is the system it commits "
            "to reachable? After a restart the epoch is committed again"
        )
        error.site = FailureSite(exception="DeadlineExceededError", epoch=epoch)
        self._deadline.abandon()  # a sink that hangs must not delay the restart with further calls
        return error
