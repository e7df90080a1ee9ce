"""The parallelism of each chain of a job, and how it changes while the job runs.

A request is validated when it is made, applied between two epochs, and complete when the first epoch with the new
parallelism is committed. It survives failures: an epoch that fails is run again with the parallelism that was applied.
A new driver starts with the parallelism of its program and configuration, regardless of requests to the previous one.

All operators of a chain are rescaled together. So are chains that are connected by a forward edge, because both ends
must have the same parallelism. The plan itself does not change: operators that were chained when the job was started
stay chained.
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
    """The parallelism of the chains of one job, for all its executions in this driver. Thread-safe.

    One thread, the job's, calls :meth:`take_up` before each epoch and :meth:`committed` after it; between the two the
    parallelism does not change.
    """

    def __init__(self, plan: JobPlan, default: int, unchangeable: Collection[int] = ()) -> None:
        """``default`` is for chains whose parallelism the plan does not set. ``unchangeable`` are the chains whose
        source has a fixed parallelism."""
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
        """The parallelism of a chain in the current or next epoch."""
        return self._current.get(chain) or self._plan.chains[chain].parallelism or self._default

    @property
    def pending(self) -> bool:
        """Whether a request is waiting for an epoch."""
        with self._lock:
            return bool(self._waiting or self._taken_up)

    def request(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[None]:
        """Request another parallelism: see :meth:`tidemill.common.job_client.JobClient.rescale`."""
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
        """Apply the requested parallelism. Must be called between two epochs."""
        with self._lock:
            self._current = dict(self._wanted)
            self._taken_up += self._waiting
            self._waiting = []

    def committed(self) -> None:
        """Complete the applied requests: an epoch with the new parallelism is committed."""
        with self._lock:
            done, self._taken_up = self._taken_up, []
        for future in done:
            if future._future.set_running_or_notify_cancel():
                future._future.set_result(None)

    def end(self, error: BaseException | None) -> None:
        """Fail waiting and later requests with the job's error, because the job is over."""
        with self._lock:
            self._over = error or JobExecutionError("the job has finished: there is nothing left to rescale")
            left = self._taken_up + self._waiting
            self._taken_up, self._waiting = [], []
        for future in left:
            if future._future.set_running_or_notify_cancel():
                future._future.set_exception(self._over)

    def _changes(self, parallelism: int | Mapping[str, int]) -> dict[int, int]:
        """The new parallelism by chain. Raises if the request is not possible."""
        if self._plan.runtime_mode == "BATCH":
            raise GraphError(
                f"job {self._plan.name!r} runs in BATCH mode, as one epoch, and can be rescaled only between epochs. "
                "Set parallelism.default before it is started, or execution.runtime-mode: STREAMING"
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
                            f"operator {operator.name!r} (uid {uid}) cannot have parallelism {wanted} while one that "
                            "it is chained with or connected to by a forward edge has parallelism "
                            f"{changes[member]}: they are rescaled together"
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
            what = f"operator {operator.name!r} (uid {operator.uid}) cannot be rescaled: its parallelism is tied to"
            if member in self._unchangeable:
                width = self.of(member)
                raise GraphError(f"{what} source {head.name!r} (uid {head.uid}), which has parallelism {width}")
            if self._plan.chains[member].parallelism is None:
                raise GraphError(
                    f"{what} source {head.name!r} (uid {head.uid}), which has one subtask per partition of its "
                    "Spark source"
                )


def check_bounds(chain: ChainPlan, parallelism: int) -> None:
    """Raise :class:`GraphError` if the parallelism exceeds the max parallelism of an operator of the chain."""
    for operator in chain.operators:
        if parallelism > operator.max_parallelism:
            raise GraphError(
                f"operator {operator.name!r} (uid {operator.uid}) cannot have parallelism {parallelism}: its max "
                f"parallelism is {operator.max_parallelism}, which is fixed once there is state"
            )


def with_stored_max_parallelism(plan: JobPlan, stored: Mapping[str, int], *, lower: bool) -> JobPlan:
    """The plan in which keyed operators have the max parallelism of their stored state, unless it is set explicitly.

    If the parallelism of a chain exceeds it, the parallelism is lowered if it was not set explicitly (``lower``);
    otherwise this raises.
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
        raise ConfigurationError(f"{what} cannot have parallelism {parallelism!r}: it must be a positive int")


def _moving_together(plan: JobPlan) -> dict[int, frozenset[int]]:
    """For each chain, the chains that must have the same parallelism, including itself."""
    groups = {chain.id: frozenset({chain.id}) for chain in plan.chains}
    for edge in plan.edges:
        if edge.kind is PartitionKind.FORWARD:
            joined = groups[edge.source_chain] | groups[edge.target_chain]
            groups.update(dict.fromkeys(joined, joined))
    return groups
