"""Commits of sinks that run on workers: one task for the committables of one subtask.

The committer of a subtask stays open in its worker for the next epoch. ``runtime/driver/commits.py`` decides what is
committed on workers and what on the driver.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Sequence

from tidemill.checkpoint.model import Epoch
from tidemill.connectors.sinks import Committer, CommitterContext
from tidemill.datastream.program.specs import SinkSpec
from tidemill.errors import FailureSite, JobExecutionError, TidemillError
from tidemill.graph.plan import JobPlan, OperatorPlan
from tidemill.runtime.batch.failures import failure_of, user_error
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.sink_log import StoredSinkLog
from tidemill.state.keys.key_groups import Subtask


class OpenCommitters:
    """The committers that one worker process keeps open between epochs, by program, sink and subtask."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str, str, int], Committer] = {}

    def get(self, bundle: JobBundle, operator: OperatorPlan, subtask: Subtask) -> Committer:
        """The committer of a subtask, opened if necessary. Closes those of an earlier start of the program."""
        key = (bundle.job_id, bundle.settings.program, operator.uid, subtask)
        found = self._open.get(key)
        if found is None:
            self._close([old for old in self._open if old[0] == bundle.job_id and old[1] != bundle.settings.program])
            spec: SinkSpec = pickle.loads(operator.spec)
            created = spec.sink.create_committer()
            if created is None:
                raise JobExecutionError(f"{sink_named(operator.uid, operator)} has results to commit, but no committer")
            created.open(CommitterContext(bundle.job_id, operator.uid, StoredSinkLog(bundle.storage, operator.uid)))
            found = self._open[key] = created
        return found

    def forget(self, bundle: JobBundle, uid: str, subtask: Subtask) -> None:
        """Close the committer of a subtask after a failure, so that the next commit uses a new one."""
        self._close([(bundle.job_id, bundle.settings.program, uid, subtask)])

    def drop(self, job_id: str) -> None:
        """Close all committers of a job."""
        self._close([key for key in self._open if key[0] == job_id])

    def _close(self, keys: Sequence[tuple[str, str, str, int]]) -> None:
        for key in keys:
            committer = self._open.pop(key, None)
            if committer is not None:
                with contextlib.suppress(Exception):  # an error in close() loses no data
                    committer.close()


def run_commit(bundle: JobBundle, committers: OpenCommitters, task: bytes) -> bytes:
    """Commit one subtask's committables on a worker; returns None, or a :class:`Failure`, pickled."""
    uid, part = pickle.loads(task)
    operator = operators_of(bundle.plan)[uid]
    try:
        committers.get(bundle, operator, part.subtask).commit([part])
    except BaseException as error:
        committers.forget(bundle, uid, part.subtask)
        failure = error if isinstance(error, TidemillError) else committer_failed(uid, operator, "commit", error)
        return pickle.dumps(failure_of(failure, uid, part.subtask, epoch=part.epoch), 5)
    return pickle.dumps(None, 5)


def committer_failed(
    uid: str, operator: OperatorPlan | None, method: str, error: BaseException, epoch: Epoch | None = None
) -> TidemillError:
    """The error with which the job fails when a committer raises. It begins with the user's traceback."""
    site = FailureSite(operator=operator.name if operator else "", uid=uid, epoch=epoch)
    where = f"{method}() of the committer of {sink_named(uid, operator)}"
    return user_error(where, error, line=operator.user_line if operator else "", site=site)


def operators_of(plan: JobPlan) -> dict[str, OperatorPlan]:
    """The operators of a plan by uid."""
    return {operator.uid: operator for chain in plan.chains for operator in chain.operators}


def sink_named(uid: str, operator: OperatorPlan | None) -> str:
    """A sink as messages name it."""
    return f"sink {operator.name!r} (uid {uid})" if operator else f"the sink with uid {uid}"
