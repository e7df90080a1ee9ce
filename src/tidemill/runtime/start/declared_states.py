"""Finds the states that a program registers when its functions are opened, by opening them with empty state."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.errors import StateError
from tidemill.graph.plan import ChainPlan, JobPlan, OperatorPlan
from tidemill.runtime.operators.base import Operator
from tidemill.runtime.task.chain import Chain, ChainSettings
from tidemill.state.backends import BackendChoice
from tidemill.state.files.sections import StateShape
from tidemill.state.keys.key_groups import Subtask

__all__ = ["DeclaredState", "OperatorStates", "declared_states"]


@dataclass(frozen=True)
class DeclaredState:
    """A state as the program declares it; ``name`` is its name in storage."""

    name: str
    shape: StateShape

    @property
    def kind(self) -> str:
        return self.shape.kind

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.shape.schema

    @property
    def ttl(self) -> Mapping[str, Any] | None:
        return None if self.shape.ttl is None else self.shape.ttl.describe()

    @property
    def migrations(self) -> Collection[str]:
        """The stored types for which the program registers a migration function."""
        return self.shape.migrations.keys()


@dataclass(frozen=True)
class OperatorStates:
    """The states of one operator by name; ``failure`` is the exception that its functions raised in ``open``.

    ``invalid``: they use state in a way that fails everywhere, as a start would show.
    """

    states: dict[str, DeclaredState] = field(default_factory=dict)
    failure: str | None = None
    invalid: bool = False


def declared_states(plan: JobPlan, settings: ChainSettings) -> dict[str, OperatorStates]:
    """The states of each operator that can have state, by uid.

    The functions of these operators are created, opened and closed once, in this process, with empty state. States that
    they register later, such as with the first record, are not found.
    """
    found: dict[str, OperatorStates] = {}
    for chain in plan.chains:
        if any(map(_may_have_state, chain.operators)):
            found.update(_of_chain(chain, replace(settings, backend=BackendChoice())))
    return found


def _may_have_state(operator: OperatorPlan) -> bool:
    return operator.keyed or operator.checkpointed


def _of_chain(plan: ChainPlan, settings: ChainSettings) -> dict[str, OperatorStates]:
    chain = Chain(plan, {}, Subtask(0), 1, settings)
    try:
        return {
            operator.context.plan.uid: _of_operator(operator)
            for operator in chain.operators
            if _may_have_state(operator.context.plan)
        }
    finally:
        chain.close(forget=True)


def _of_operator(operator: Operator) -> OperatorStates:
    failure, invalid = None, False
    try:
        operator.initialize_state(None)
        operator.open()
    except Exception as error:  # a user function may depend on the environment of a worker
        cause = error.__cause__ or error
        failure, invalid = f"{type(cause).__name__}: {cause}", isinstance(cause, StateError)
    finally:
        with contextlib.suppress(Exception):
            operator.close()
    states: dict[str, DeclaredState] = {}
    context = operator.context
    if context.backend is not None:
        states.update({name: DeclaredState(name, shape) for name, shape in context.backend.declared().items()})
    if context.operator_state is not None:
        declared = context.operator_state.declared()
        states.update({name: DeclaredState(name, shape) for name, shape in declared.items()})
    return OperatorStates(states, failure, invalid)
