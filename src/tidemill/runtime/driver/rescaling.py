"""How many subtasks each chain of a job has, and how that changes while the job runs.

A request is checked when it is made, taken up between two epochs, and done when the first epoch with the new
parallelism is committed. It outlives failures: an epoch that fails is run again with what was taken up. A driver that
is started again begins with what its program and configuration say, whatever the former one was asked for.

What moves together: all operators of a chain, and chains that are connected by a forward edge, since its two ends must
be equally wide. The plan itself stays as it is: operators that were chained when the job was started stay chained.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace

from tidemill.common.completable_future import CompletableFuture
from tidemill.datastream.program.transformations import PartitionKind
from tidemill.errors import ConfigurationError, GraphError, JobExecutionError, TidemillError
from tidemill.graph.plan import ChainPlan, JobPlan, OperatorPlan


class JobParallelism:
    """The parallelism of the chains of one job, for all its attempts in this driver. Safe to use from several threads.

    One thread, the job's, calls :meth:`take_up` before each epoch and :meth:`committed` after it; between the two the
    parallelism does not change.
    """

    def __init__(self, plan: JobPlan, default: int, unchangeable: Collection[int] = ()) -> None:
        """``default`` is for chains of which the plan does not say; ``unchangeable`` are those whose source has only
        one way to be read."""
        # configuration
        self._plan = plan
        self._default = default
        self._unchangeable = frozenset(unchangeable)
        self._groups = _moving_together(plan)
        # transient
        self._lock = threading.Lock()
        self._current: dict[int, int] = {}
        self._wanted: dict[int, int] = {}
        self._waiting: list[CompletableFuture[None]] = []
        self._taken_up: list[CompletableFuture[None]] = []
        self._over: BaseException | None = None

    def of(self, chain: int) -> int:
        """The parallelism of a chain in the epoch that runs or runs next."""
        return self._current.get(chain) or self._plan.chains[chain].parallelism or self._default

    @property
    def pending(self) -> bool:
        """Whether a request waits for an epoch."""
        with self._lock:
            return bool(self._waiting or self._taken_up)

    def request(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        """Ask for another parallelism: see :meth:`tidemill.common.job_client.JobClient.rescale`."""
        future: CompletableFuture[None] = CompletableFuture()
        try:
            changes = self._changes(parallelism)
        except TidemillError as error:
            return CompletableFuture.failed(error)
        with self._lock:
            if self._over is not None:
                return CompletableFuture.failed(self._over)
            self._wanted.update(changes)
            self._waiting.append(future)
        return future

    def take_up(self) -> None:
        """No epoch runs: from now on the chains are as wide as was asked for."""
        with self._lock:
            self._current = dict(self._wanted)
            self._taken_up += self._waiting
            self._waiting = []

    def committed(self) -> None:
        """An epoch with what was taken up is committed."""
        with self._lock:
            done, self._taken_up = self._taken_up, []
        for future in done:
            if future._future.set_running_or_notify_cancel():
                future._future.set_result(None)

    def end(self, error: BaseException | None) -> None:
        """The job is over: what waits, or comes later, fails with the job's error."""
        with self._lock:
            self._over = error or JobExecutionError("the job has finished: there is nothing left to rescale")
            left = self._taken_up + self._waiting
            self._taken_up, self._waiting = [], []
        for future in left:
            if future._future.set_running_or_notify_cancel():
                future._future.set_exception(self._over)

    def _changes(self, parallelism: int | Mapping[str, int]) -> dict[int, int]:
        """The new parallelism by chain. Raises for what cannot be."""
        if self._plan.runtime_mode == "BATCH":
            raise GraphError(
                f"job {self._plan.name!r} runs in BATCH mode, as one epoch: there is no place between two epochs to "
                "rescale it. Set parallelism.default before it is started, or execution.runtime-mode: STREAMING"
            )
        changes: dict[int, int] = {}
        if isinstance(parallelism, Mapping):
            for uid, wanted in parallelism.items():
                operator, chain = self._operator(uid)
                _check_positive(wanted, f"operator {operator.name!r} (uid {uid})")
                self._check_changeable(operator, chain)
                for member in self._groups[chain.id]:
                    if changes.setdefault(member, wanted) != wanted:
                        raise GraphError(
                            f"operator {operator.name!r} (uid {uid}) cannot have parallelism {wanted}, and one that it "
                            f"is chained with or connected to by a forward edge {changes[member]}: they move together"
                        )
        else:
            _check_positive(parallelism, f"job {self._plan.name!r}")
            for chain in self._plan.chains:
                if not any(self._plan.chains[member].fixed for member in self._groups[chain.id]):
                    changes[chain.id] = parallelism
        for number, wanted in changes.items():
            check_bounds(self._plan.chains[number], wanted)
        return changes

    def _operator(self, uid: str) -> tuple[OperatorPlan, ChainPlan]:
        for chain in self._plan.chains:
            for operator in chain.operators:
                if operator.uid == uid:
                    return operator, chain
        known = ", ".join(f"{op.uid} ({op.name})" for chain in self._plan.chains for op in chain.operators)
        raise GraphError(f"no operator has the uid {uid!r}; there are {known}")

    def _check_changeable(self, operator: OperatorPlan, chain: ChainPlan) -> None:
        for member in self._groups[chain.id]:
            head = self._plan.chains[member].head
            what = f"operator {operator.name!r} (uid {operator.uid}) cannot be rescaled: it is read together with"
            if member in self._unchangeable:
                width = self.of(member)
                raise GraphError(f"{what} source {head.name!r} (uid {head.uid}), which has parallelism {width}")
            if self._plan.chains[member].parallelism is None:
                raise GraphError(
                    f"{what} source {head.name!r} (uid {head.uid}), which has a subtask for each partition of its "
                    "Spark source"
                )


def check_bounds(chain: ChainPlan, parallelism: int) -> None:
    """Raise :class:`GraphError` if an operator of the chain cannot have so many subtasks."""
    for operator in chain.operators:
        if parallelism > operator.max_parallelism:
            raise GraphError(
                f"operator {operator.name!r} (uid {operator.uid}) cannot have parallelism {parallelism}: its max "
                f"parallelism is {operator.max_parallelism}, and fixed once there is state"
            )


def with_stored_max_parallelism(plan: JobPlan, stored: Mapping[str, int], *, lower: bool) -> JobPlan:
    """The plan with the max parallelism of each keyed operator that its state was stored with, unless one was set.

    A chain that is wider gets narrower if nobody asked for its parallelism (``lower``); else this is an error.
    """
    chains = []
    for chain in plan.chains:
        operators = tuple(
            replace(operator, max_parallelism=stored.get(operator.uid, operator.max_parallelism))
            if operator.keyed and not operator.explicit_max_parallelism
            else operator
            for operator in chain.operators
        )
        adopted = replace(chain, operators=operators)
        if adopted.parallelism is not None:
            if lower and not chain.fixed:
                most = min(operator.max_parallelism for operator in operators)
                adopted = replace(adopted, parallelism=min(adopted.parallelism, most))
            check_bounds(adopted, adopted.parallelism or 0)
        chains.append(adopted)
    return replace(plan, chains=tuple(chains))


def _check_positive(parallelism: int, what: str) -> None:
    if type(parallelism) is not int or parallelism < 1:
        raise ConfigurationError(f"{what} cannot have parallelism {parallelism!r}: it must be an int from 1")


def _moving_together(plan: JobPlan) -> dict[int, frozenset[int]]:
    """For each chain those that must be as wide as it, itself included."""
    groups = {chain.id: frozenset({chain.id}) for chain in plan.chains}
    for edge in plan.edges:
        if edge.kind is PartitionKind.FORWARD:
            joined = groups[edge.source_chain] | groups[edge.target_chain]
            groups.update(dict.fromkeys(joined, joined))
    return groups
