"""Deprecated: the former path of :mod:`tidemill.connectors.two_phase_commit`."""

from __future__ import annotations

from tidemill.connectors.two_phase_commit import (
    TwoPhaseCommitSinkFunction,
    TwoPhaseCommittingSink,
)
from tidemill.deprecation import deprecated_module

__all__ = [
    "TwoPhaseCommitSinkFunction",
    "TwoPhaseCommittingSink",
]

deprecated_module(__name__, "tidemill.connectors.two_phase_commit", removed_in="1.0")
