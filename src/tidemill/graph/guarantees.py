"""What a pipeline promises about its results: its weakest part decides.

A sink's guarantee holds with sources that can be read again from where the last committed epoch ended. What such a
source hands out twice, the sink shows once; what another one has handed out is gone with the attempt that read it.
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
    """What holds for the results in one sink, and the parts for which it is less than exactly once, in words.

    >>> Promise("out", "at-least-once", ("'out' is at-least-once",)).is_weak
    True
    """

    sink: str
    guarantee: str
    because: tuple[str, ...] = ()
    #: Whether it matters: what is printed for people to read may be printed twice.
    matters: bool = True

    @property
    def is_weak(self) -> bool:
        """Whether results may be missing or be there twice after a failure."""
        return self.guarantee not in _STRONG


def promises(plan: JobPlan) -> list[Promise]:
    """One for each sink of a plan, in the order of its chains."""
    found = []
    for chain in plan.chains:
        for position, operator in enumerate(chain.operators):
            if operator.guarantee:
                sources = [source for source in _sources_of(plan, chain.id, position) if not source.replayable]
                found.append(_promise(operator, sources))
    return found


def weakest(found: list[Promise]) -> Promise | None:
    """The weakest of several promises; None for a program without sinks."""
    return min(found, key=lambda promise: _ORDER.index(promise.guarantee), default=None)


def warning(plan: JobPlan) -> str | None:
    """What to tell a user who asks for exactly once, in one line; None where there is nothing to tell."""
    if plan.settings.get(CheckpointingOptions.MODE.key, CheckpointingOptions.MODE.default) != "EXACTLY_ONCE":
        return None
    weak = [promise for promise in promises(plan) if promise.is_weak and promise.matters]
    if not weak:
        return None
    reasons = dict.fromkeys(reason for promise in weak for reason in promise.because)
    return (
        f"job {plan.name!r} is not exactly once from end to end: {'; '.join(reasons)}. Its state is. "
        "See docs/connectors/README.md, or set execution.checkpointing.mode: AT_LEAST_ONCE if that is enough"
    )


def _promise(sink: OperatorPlan, lossy: list[OperatorPlan]) -> Promise:
    weak = sink.guarantee not in _STRONG
    because = [f"{sink.name!r} is {sink.guarantee}"] if weak else []
    because += [f"{source.name!r} cannot be read again, and loses records when the job fails" for source in lossy]
    guarantee = sink.guarantee
    if lossy:
        guarantee = "none" if weak else "at-most-once"
    return Promise(sink.name, guarantee, tuple(because), matters=not sink.for_reading)


def _sources_of(plan: JobPlan, chain: int, position: int) -> list[OperatorPlan]:
    """The sources whose records come to an operator, each once."""
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
