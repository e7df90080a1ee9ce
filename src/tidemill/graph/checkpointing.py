"""Which operators take part in checkpoints beyond keyed state."""

from __future__ import annotations

from typing import Any

from tidemill.datastream.checkpointed import CheckpointedFunction, ListCheckpointed, is_checkpointed
from tidemill.datastream.sinks import SupportsWriterState
from tidemill.datastream.specs import BroadcastProcessSpec, SinkSpec
from tidemill.datastream.transformations import Transformation


def has_operator_state(node: Transformation) -> bool:
    """Whether the operator keeps state of its subtask."""
    spec = node.spec
    if isinstance(spec, SinkSpec) and isinstance(spec.sink, SupportsWriterState):
        return True
    return isinstance(spec, BroadcastProcessSpec) or isinstance(
        _function_of(spec), (CheckpointedFunction, ListCheckpointed)
    )


def takes_part_in_checkpoints(node: Transformation) -> bool:
    """Whether the operator has operator state or listens to checkpoints: its subtasks must not come and go."""
    return has_operator_state(node) or is_checkpointed(_function_of(node.spec))


def _function_of(spec: Any) -> Any:
    return getattr(spec.sink if isinstance(spec, SinkSpec) else spec, "function", None)
