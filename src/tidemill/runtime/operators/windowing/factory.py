"""Selects the operator for a window spec."""

from __future__ import annotations

from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.assigners import MergingWindowAssigner
from tidemill.runtime.operators.base import OperatorContext
from tidemill.runtime.operators.windowing.aligned import AlignedWindowOperator, is_aligned
from tidemill.runtime.operators.windowing.merging import MergingWindowOperator
from tidemill.runtime.operators.windowing.operator import WindowOperator
from tidemill.runtime.operators.windowing.sessions import SessionWindowOperator, is_sessions


def window_operator(spec: WindowSpec, context: OperatorContext) -> WindowOperator:
    """Create the operator for a window spec."""
    if is_sessions(spec):
        return SessionWindowOperator(spec, context)
    if isinstance(spec.assigner, MergingWindowAssigner):
        return MergingWindowOperator(spec, context)
    if is_aligned(spec):
        return AlignedWindowOperator(spec, context)
    return WindowOperator(spec, context)
