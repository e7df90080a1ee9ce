"""All differential cases."""

from __future__ import annotations

from tests.semantics.differential import (
    cases_calls,
    cases_outputs,
    cases_pairs,
    cases_state,
    cases_streams,
    cases_time,
    cases_values,
    cases_windows,
)
from tests.semantics.differential.cases_values import Values
from tests.semantics.differential.program import Call, Program

PROGRAMS: list[Program] = [
    *cases_time.PROGRAMS,
    *cases_state.PROGRAMS,
    *cases_windows.PROGRAMS,
    *cases_streams.PROGRAMS,
    *cases_outputs.PROGRAMS,
    *cases_pairs.PROGRAMS,
]
VALUES: list[Values] = cases_values.VALUES
CALLS: list[Call] = cases_calls.CALLED
