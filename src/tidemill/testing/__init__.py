"""Test harnesses for user functions and whole programs, which run in this process, in milliseconds, without Spark.

:class:`KeyedHarness` and :class:`OperatorHarness` run one function or a few chained ones: push records and time,
inspect output, state and timers, snapshot, restore, rescale. :class:`JobHarness` runs a whole program epoch by epoch,
with chosen input, faults, cold workers and restarts. All of them run the engine's own code.

``tidemill.testing.sink_contract`` and ``source_contract`` test custom sinks and sources.

For contributors: Start with ``job_harness.py``. Named points at which tests inject faults are in ``tidemill.faults``.
Tidemill's own tests are in ``tests``; what only they use is in ``simulation``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidemill.faults import Fault
    from tidemill.testing.job_harness import JobHarness, run_local
    from tidemill.testing.keyed_harness import KeyedHarness
    from tidemill.testing.operator_harness import OperatorHarness
    from tidemill.testing.snapshot import Snapshot

__all__ = ["Fault", "JobHarness", "KeyedHarness", "OperatorHarness", "Snapshot", "run_local"]

_HOMES: Final = {
    "Fault": "tidemill.faults",
    "JobHarness": "tidemill.testing.job_harness",
    "KeyedHarness": "tidemill.testing.keyed_harness",
    "OperatorHarness": "tidemill.testing.operator_harness",
    "Snapshot": "tidemill.testing.snapshot",
    "run_local": "tidemill.testing.job_harness",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: the contracts for sinks and sources need only some of the harnesses.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
