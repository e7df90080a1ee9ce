"""What a job starts from: its own last epoch, or the savepoint or checkpoint that its configuration names.

``execution.state-recovery.path`` may be set by a user who wants to roll back, or repeated by a process manager that
runs the same command line again after a crash. Both must work: the first start rolls back, and a restarted driver does
not roll back again. A job therefore records, in its manifests, which savepoint its current *history* began from
(:class:`~tidemill.checkpoint.model.Manifest`). If that is the configured savepoint, the job resumes from its last
epoch. If it is another one, the job moves back (or forward) to it, and a new history begins: sinks treat repeated
epochs as new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidemill.checkpoint.log import ManifestLog, has_committed
from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.portable import PortableState
from tidemill.checkpoint.savepoint import METADATA, Options, dispose_savepoint, open_state
from tidemill.checkpoint.storage.storages import store_options
from tidemill.common.configuration import Configuration
from tidemill.config import CheckpointingOptions, ExecutionOptions, StateRecoveryOptions
from tidemill.errors import CheckpointError, ConfigurationError, GraphError, JobFinishedError, NoSavepointError
from tidemill.graph.plan import JobPlan
from tidemill.runtime.start.trust import comparable_path

__all__ = [
    "Start",
    "StartingPoint",
    "check_own_end",
    "check_start_over",
    "decide_start",
    "finished_refusal",
    "starting_point",
]

log = logging.getLogger(__name__)

_ANEW = f"set {ExecutionOptions.RESUME_MODE.key}: none"


@dataclass(frozen=True)
class StartingPoint:
    """What a job starts from, other than its own last epoch. With ``claim`` the job takes ownership of a savepoint."""

    state: PortableState
    path: str
    claim: bool
    options: Options = None

    @property
    def begins(self) -> Mapping[str, str]:
        """The origin of the history that begins here, as manifests record it."""
        place = comparable_path(self.state.where)
        where = str(Path(*place[1:])) if place[:1] == ("file",) else self.state.where
        return {"id": self.state.id, "path": where}

    def is_behind(self, head: Manifest | None) -> bool:
        """Whether a job with this head has already started from here."""
        return head is not None and has_committed(head) and head.history.get("id") == self.state.id

    def without_results_of(self, sinks: Collection[str]) -> StartingPoint:
        """This starting point without the results that other drivers were to return to their own callers."""
        manifest = self.state.manifest
        left = {uid: results for uid, results in manifest.committables.items() if uid not in sinks}
        return replace(self, state=replace(self.state, manifest=replace(manifest, committables=left)))

    def claimed(self) -> None:
        """Delete a claimed savepoint, once the job has durable copies of all it needs.

        Checkpoints of another job are never deleted.
        """
        if not (self.claim and self.state.storage.exists(METADATA)):
            return
        try:
            dispose_savepoint(self.path, self.options)
        except CheckpointError as error:
            log.warning("savepoint %s was claimed, but could not be deleted completely: %s", self.path, error)


@dataclass(frozen=True)
class Start:
    """The decision what a job starts from: None for its own last epoch, or for no state.

    ``note`` explains a decision that may surprise; it is a warning if the job abandons an epoch.
    """

    point: StartingPoint | None = None
    note: str = ""
    abandons: bool = False


def starting_point(
    configuration: Configuration, manifests: ManifestLog, job_id: str, *, batch: bool = False
) -> StartingPoint | None:
    """The savepoint or checkpoint that a job is to start from; None if it resumes from its own last epoch, or is new.

    Logs the reason. Raises as :func:`decide_start` does.
    """
    start = decide_start(configuration, manifests, job_id, batch=batch)
    if start.note:
        log.log(logging.WARNING if start.abandons else logging.INFO, "%s", start.note)
    return start.point


def decide_start(configuration: Configuration, manifests: ManifestLog, job_id: str, *, batch: bool = False) -> Start:
    """Decide what a job starts from; ``manifests`` is its own log.

    The configured path is used unless the job's history began from it, or the configuration prefers the job's last
    epoch.

    Raises :class:`~tidemill.errors.NoSavepointError` if the path contains no savepoint or checkpoint,
    :class:`~tidemill.errors.JobFinishedError` if it is the end of a job, and :class:`~tidemill.errors.GraphError` for
    a ``batch`` job, whose state lasts no longer than a key's input.
    """
    path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
    if path is None:
        return Start()
    head = manifests.read_head()
    last = head if has_committed(head) else None
    resumes = "" if last is None else f"job {job_id} resumes from its epoch {last.epoch}"
    if last is not None and configuration.get(StateRecoveryOptions.PREFER_LATEST):
        return Start(note=f"{resumes}, which is preferred to {path}")
    if batch:
        raise GraphError(
            f"a job in BATCH mode cannot start from {path}: it always starts without state. Set "
            f"execution.runtime-mode: STREAMING, or remove {StateRecoveryOptions.SAVEPOINT_PATH.key}"
        )
    if last is not None and _is_own(configuration, job_id, path):
        return Start(note=f"{resumes}: {path} is its own directory")
    claim = configuration.get(StateRecoveryOptions.CLAIM_MODE) == "CLAIM"
    options = store_options(configuration)
    try:
        start = StartingPoint(open_state(path, options), path, claim, options)
    except NoSavepointError:
        if last is None or not _is_place(path, last.history.get("path")):
            raise
        return Start(note=f"{resumes}: it started from {path}, which no longer exists")
    if last is not None and (start.is_behind(last) or _began_before(manifests, last, start.state)):
        # ``resume-mode: none`` would delete the job's own checkpoints, including this one.
        own = _is_own(configuration, job_id, path.partition("/chk-")[0])
        again = f"start a job with another {ExecutionOptions.JOB_ID.key} from it" if own else _ANEW
        return Start(note=f"{resumes}: it has already started from {path}. To return to it again, {again}")
    if (refusal := finished_refusal(path, start.state.manifest)) is not None:
        raise JobFinishedError(refusal)
    if last is None:
        return Start(start)
    note = (
        f"job {job_id} abandons its epoch {last.epoch} and starts from epoch {start.state.manifest.epoch} of {path}: "
        "output since then is written again"
    )
    return Start(start, note, abandons=True)


def finished_refusal(path: str, manifest: Manifest) -> str | None:
    """Why no job can start from a manifest if it is the end of a job; None for any other manifest."""
    if not manifest.finished:
        return None
    return (
        f"{path} is the end of job {manifest.job_id!r}, which is FINISHED: its sources have been read completely and "
        "its event time has reached the end, so a job that starts from there would read nothing. To start without "
        f"state, remove {StateRecoveryOptions.SAVEPOINT_PATH.key}. To continue with the state, start from a savepoint "
        "or retained checkpoint from before the end (to resume a job later, stop it without draining it)"
    )


def check_own_end(plan: JobPlan, head: Manifest, described: Mapping[str, Any], collecting: Collection[str]) -> None:
    """Warn that a finished job is not run again, or refuse a program that expects results from it.

    ``collecting`` are the uids of sinks that return results to their program. Raises
    :class:`~tidemill.errors.JobFinishedError` if there are any, or if the program is not the one that has finished.
    """
    what = f"job {head.job_id!r} is FINISHED at epoch {head.epoch} and is not run again"
    to_do = (
        f"To run it from the beginning, use another {ExecutionOptions.JOB_ID.key}, or {_ANEW}, which deletes what it "
        "has committed"
    )
    if collecting:
        raise JobFinishedError(f"{what}: its results went to the program that ran it. {to_do}")
    finished = {uid for uid, description in described.items() if not description.get("dropped")}
    program = {operator.uid: operator.name for chain in plan.chains for operator in chain.operators}
    if described and finished != program.keys():
        new = sorted(f"{name!r} (uid {uid})" for uid, name in program.items() if uid not in finished)
        gone = sorted(f"{described[uid].get('name', uid)!r} (uid {uid})" for uid in finished - program.keys())
        differences = [f"it has {', '.join(new)}"] * bool(new) + [f"it lacks {', '.join(gone)}"] * bool(gone)
        raise JobFinishedError(f"{what}. This program is different: {'; '.join(differences)}. {to_do}")
    log.warning("%s. %s", what, to_do)


def check_start_over(configuration: Configuration, job_id: str) -> None:
    """Check, before a job's own state is deleted, that the state it is to start from exists and is stored elsewhere.

    Raises as :func:`starting_point` does, and :class:`~tidemill.errors.ConfigurationError` for the job's own directory.
    """
    path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
    if path is None:
        return
    state = open_state(path, store_options(configuration))
    if _is_own(configuration, job_id, path.partition("/chk-")[0]):
        raise ConfigurationError(
            f"{ExecutionOptions.RESUME_MODE.key}: none deletes what job {job_id!r} has committed, and {path} is part "
            "of that: remove the option"
        )
    if (refusal := finished_refusal(path, state.manifest)) is not None:
        raise JobFinishedError(refusal)


def _began_before(manifests: ManifestLog, head: Manifest, state: PortableState) -> bool:
    """Whether a job of an earlier version, which does not record the origin of its history, started from a state.

    Its first takeover record contains the state it started with. If the state is that of a job's directory, the epoch
    cannot be determined: the job then does not go back to it.
    """
    if head.history:
        return False
    try:
        first = manifests.read(1)
    except CheckpointError:
        return False
    if not has_committed(first):
        return False
    begun, asked = first, state.manifest
    return state.id.startswith("job ") or (begun.epoch, begun.clock, begun.sources, begun.spark is None) == (
        asked.epoch,
        asked.clock,
        asked.sources,
        asked.spark is None,
    )


def _is_own(configuration: Configuration, job_id: str, path: str) -> bool:
    """Whether a path is the directory in which the job itself stores its epochs."""
    directory = configuration.get(CheckpointingOptions.DIRECTORY)
    return directory is not None and _is_place(path, f"{directory.rstrip('/')}/{job_id}")


def _is_place(path: str, known: str | None) -> bool:
    cleaned = path.rstrip("/").removesuffix(f"/{METADATA}")
    return known is not None and comparable_path(cleaned) != () and comparable_path(cleaned) == comparable_path(known)
