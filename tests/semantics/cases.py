"""All cases of the semantics suite, with stable ids. Import ``CASES`` and ``BAD_CASES`` to run them on an engine."""

from __future__ import annotations

from tests.semantics import cases_bad, cases_basic, cases_keys, cases_state, cases_streams, cases_types, cases_windows
from tests.semantics.case import BadCase, Case, check

__all__ = ["BAD_CASES", "CASES", "SPARK_BAD_CASES", "SPARK_CASES", "BadCase", "Case", "check"]

CASES: list[Case] = [
    *cases_basic.CASES,
    *cases_streams.CASES,
    *cases_state.CASES,
    *cases_keys.CASES,
    *cases_types.CASES,
    *cases_windows.CASES,
]
BAD_CASES: list[BadCase] = cases_bad.CASES

#: The subset that also runs on Spark.
SPARK_CASES = [case for case in CASES if case.spark]
SPARK_BAD_CASES = [case for case in BAD_CASES if case.spark]
