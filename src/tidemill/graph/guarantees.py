"""The delivery guarantee of a pipeline, which is that of its weakest part.

The guarantee of a sink assumes replayable sources, which can be read again from the position at which the last
committed epoch ended. If a replayable source emits records twice, the sink publishes them once. If a source is not
replayable, the records of a failed attempt are lost. A source that repeats records of committed epochs makes every
result at least once, and the state too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidemill.config import CheckpointingOptions
from tidemill.graph.plan import JobPlan, OperatorPlan

#: From the weakest to the strongest.
_ORDER: Final = ("none", "at-most-once", "at-least-once", "effectively-once", "exactly-once")
_STRONG: Final = ("effectively-once", "exactly-once")


@dataclass(frozen=True)
class Promise:
    """The guarantee for the results in one sink, and the reasons why it is weaker than exactly-once.

    >>> Promise("out", "at-least-once", ("'out' is at-least-once",)).is_weak
    True
    """

    sink: str
    guarantee: str
    because: tuple[str, ...] = ()
    #: Whether a weak guarantee is worth a warning. Output that is only printed for people may contain duplicates.
    matters: bool = True

    @property
    def is_weak(self) -> bool:
        """Whether results may be lost or duplicated after a failure."""
        return self.guarantee not in _STRONG


def promises(plan: JobPlan) -> list[Promise]:
    """Return one promise for each sink of a plan, in the order of its chains."""
    found = []
    for chain in plan.chains:
        for position, operator in enumerate(chain.operators):
            if operator.guarantee:
                found.append(_promise(operator, _sources_of(plan, chain.id, position)))
    return found


def weakest(found: list[Promise]) -> Promise | None:
    """Return the weakest of several promises, or None for a program without sinks."""
    return min(found, key=lambda promise: _ORDER.index(promise.guarantee), default=None)


def warning(plan: JobPlan) -> str | None:
    """Return a one-line warning if exactly-once is configured and the job cannot guarantee it, else None."""
    if plan.settings.get(CheckpointingOptions.MODE.key, CheckpointingOptions.MODE.default) != "EXACTLY_ONCE":
        return None
    weak = [promise for promise in promises(plan) if promise.is_weak and promise.matters]
    if not weak:
        return None
    reasons = dict.fromkeys(reason for promise in weak for reason in promise.because)
    repeats = any(operator.repeats for chain in plan.chains for operator in chain.operators)
    state = "" if repeats else "Its state is exactly-once. "
    return (
        f"job {plan.name!r} is not exactly-once end to end: {'; '.join(reasons)}. {state}"
        "See docs/connectors/README.md, or set execution.checkpointing.mode: AT_LEAST_ONCE if that is enough"
    )


def _promise(sink: OperatorPlan, sources: list[OperatorPlan]) -> Promise:
    lossy = [source for source in sources if not source.replayable]
    repeating = [source for source in sources if source.repeats]
    weak = sink.guarantee not in _STRONG
    because = [f"{sink.name!r} is {sink.guarantee}"] if weak else []
    because += [f"{source.name!r} cannot be read again, and loses records when the job fails" for source in lossy]
    because += [f"{source.name!r} may read records again after a failure, also into the state" for source in repeating]
    guarantee = sink.guarantee
    if repeating and not weak:
        guarantee, weak = "at-least-once", True
    if lossy:
        guarantee = "none" if weak else "at-most-once"
    return Promise(sink.name, guarantee, tuple(because), matters=not sink.for_reading)


def _sources_of(plan: JobPlan, chain: int, position: int) -> list[OperatorPlan]:
    """Return the distinct sources whose records reach an operator."""
    into: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in plan.chains:
        for link in one.links:
            into.setdefault((one.id, link.target), []).append((one.id, link.source))
    for edge in plan.edges:
        into.setdefault((edge.target_chain, 0), []).append((edge.source_chain, edge.source_operator))
    seen = {(chain, position)}
    waiting = [(chain, position)]
    sources = []
    while waiting:
        place = waiting.pop()
        operator = plan.chains[place[0]].operators[place[1]]
        if operator.inputs == 0:
            sources.append(operator)
        for producer in into.get(place, ()):
            if producer not in seen:
                seen.add(producer)
                waiting.append(producer)
    return sources
