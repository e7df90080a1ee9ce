"""Maps moved modules to the names under which their classes are stored in files.

A state file refers to the class of a value by the original module of the class, wherever the class is now. So state
files and local stores are the same before and after a move. A pickle refers to the module that the class was in when
the pickle was written; modules that no longer exist are looked up here.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["current_module", "first_module", "unpickle"]

#: From the current module of classes to their original module.
_FIRST: Final = {
    "tidemill.common.reports.checkpoint_statistics": "tidemill.common.checkpoint_statistics",
    "tidemill.common.reports.exception_history": "tidemill.common.exception_history",
    "tidemill.common.reports.hot_keys": "tidemill.common.hot_keys",
    "tidemill.common.reports.metric_value": "tidemill.common.metric_value",
    "tidemill.common.reports.upgrade_report": "tidemill.common.upgrade_report",
    "tidemill.common.type_kinds.base": "tidemill.common.type_base",
    "tidemill.common.type_kinds.basic": "tidemill.common.type_basic",
    "tidemill.common.type_kinds.composite": "tidemill.common.type_composite",
    "tidemill.common.type_kinds.infer": "tidemill.common.type_infer",
    "tidemill.common.type_kinds.python": "tidemill.common.type_python",
    "tidemill.connectors.idempotent_sink": "tidemill.datastream.idempotent_sink",
    "tidemill.connectors.sinks": "tidemill.datastream.sinks",
    "tidemill.connectors.sources": "tidemill.datastream.sources",
    "tidemill.connectors.two_phase_commit": "tidemill.datastream.two_phase_commit",
    "tidemill.connectors.write_ahead_log": "tidemill.datastream.write_ahead_log",
    "tidemill.datastream.environment.settings": "tidemill.datastream.environment_settings",
    "tidemill.datastream.environment.sources": "tidemill.datastream.environment_sources",
    "tidemill.datastream.environment.stream_execution_environment": "tidemill.datastream.stream_execution_environment",
    "tidemill.datastream.functions.asynchronous": "tidemill.datastream.async_functions",
    "tidemill.datastream.functions.base": "tidemill.datastream.function_base",
    "tidemill.datastream.functions.basic": "tidemill.datastream.basic_functions",
    "tidemill.datastream.functions.broadcast": "tidemill.datastream.broadcast_functions",
    "tidemill.datastream.functions.built_in": "tidemill.datastream.built_in",
    "tidemill.datastream.functions.checkpointed": "tidemill.datastream.checkpointed",
    "tidemill.datastream.functions.field_access": "tidemill.datastream.field_access",
    "tidemill.datastream.functions.join": "tidemill.datastream.join_functions",
    "tidemill.datastream.functions.pickling": "tidemill.datastream.pickling",
    "tidemill.datastream.functions.process": "tidemill.datastream.process_functions",
    "tidemill.datastream.functions.retry_predicates": "tidemill.datastream.async_retry_predicates",
    "tidemill.datastream.functions.retry_strategies": "tidemill.datastream.async_retry_strategies",
    "tidemill.datastream.functions.state": "tidemill.datastream.state",
    "tidemill.datastream.functions.state_descriptors": "tidemill.datastream.state_descriptors",
    "tidemill.datastream.functions.state_ttl": "tidemill.datastream.state_ttl",
    "tidemill.datastream.functions.type_parameters": "tidemill.datastream.type_parameters",
    "tidemill.datastream.functions.window": "tidemill.datastream.window_functions",
    "tidemill.datastream.program.error_policy": "tidemill.datastream.error_policy",
    "tidemill.datastream.program.execution": "tidemill.datastream.execution",
    "tidemill.datastream.program.ingestion_time": "tidemill.datastream.ingestion_time",
    "tidemill.datastream.program.key_selectors": "tidemill.datastream.key_selectors",
    "tidemill.datastream.program.specs": "tidemill.datastream.specs",
    "tidemill.datastream.program.taken": "tidemill.datastream.taken",
    "tidemill.datastream.program.transformations": "tidemill.datastream.transformations",
    "tidemill.datastream.program.type_hints": "tidemill.datastream.type_hints",
    "tidemill.datastream.streams.async_data_stream": "tidemill.datastream.async_data_stream",
    "tidemill.datastream.streams.broadcast_stream": "tidemill.datastream.broadcast_stream",
    "tidemill.datastream.streams.closeable_iterator": "tidemill.datastream.closeable_iterator",
    "tidemill.datastream.streams.connected_streams": "tidemill.datastream.connected_streams",
    "tidemill.datastream.streams.data_stream": "tidemill.datastream.data_stream",
    "tidemill.datastream.streams.data_stream_ends": "tidemill.datastream.data_stream_ends",
    "tidemill.datastream.streams.data_stream_sink": "tidemill.datastream.data_stream_sink",
    "tidemill.datastream.streams.dead_letters": "tidemill.datastream.dead_letters",
    "tidemill.datastream.streams.interval_join": "tidemill.datastream.interval_join",
    "tidemill.datastream.streams.joined_streams": "tidemill.datastream.joined_streams",
    "tidemill.datastream.streams.keyed_stream": "tidemill.datastream.keyed_stream",
    "tidemill.datastream.streams.operator_settings": "tidemill.datastream.operator_settings",
    "tidemill.datastream.streams.projection": "tidemill.datastream.projection",
    "tidemill.datastream.streams.queryable_state": "tidemill.datastream.queryable_state",
    "tidemill.datastream.streams.split_stream": "tidemill.datastream.split_stream",
    "tidemill.datastream.streams.windowed_stream": "tidemill.datastream.windowed_stream",
    "tidemill.datastream.streams.with_state": "tidemill.datastream.with_state",
    "tidemill.datastream.window.assigners": "tidemill.datastream.window_assigners",
    "tidemill.datastream.window.evictors": "tidemill.datastream.window_evictors",
    "tidemill.datastream.window.nested_triggers": "tidemill.datastream.window_nested_triggers",
    "tidemill.datastream.window.sessions": "tidemill.datastream.window_sessions",
    "tidemill.datastream.window.trigger": "tidemill.datastream.window_trigger",
    "tidemill.datastream.window.triggers": "tidemill.datastream.window_triggers",
    "tidemill.datastream.window.types": "tidemill.datastream.window_types",
}
_CURRENT: Final = {first: current for current, first in _FIRST.items()}
#: Packages that moved as a whole: current prefix, original prefix.
_PACKAGES: Final = (
    ("tidemill.connectors.formats.", "tidemill.datastream.formats."),
    ("tidemill.connectors.", "tidemill.datastream.connectors."),
)


def first_module(module: str) -> str:
    """The module name under which the classes of ``module`` are stored.

    >>> first_module("tidemill.datastream.window.types"), first_module("tidemill.connectors.kafka.records")
    ('tidemill.datastream.window_types', 'tidemill.datastream.connectors.kafka.records')
    >>> first_module("my_program")
    'my_program'
    """
    return _renamed(module, _FIRST, _PACKAGES)


def current_module(module: str) -> str:
    """The current module of the classes that are stored under the name ``module``.

    >>> current_module("tidemill.datastream.window_types")
    'tidemill.datastream.window.types'
    """
    return _renamed(module, _CURRENT, ((first, current) for current, first in _PACKAGES))


def _renamed(module: str, modules: Mapping[str, str], packages: Iterable[tuple[str, str]]) -> str:
    if not module.startswith("tidemill."):
        return module
    known = modules.get(module)
    if known is not None:
        return known
    for old, new in packages:
        if module.startswith(old):
            return new + module.removeprefix(old)
    return module


def unpickle(data: bytes) -> Any:
    """Load a pickle from a stored file, even if Tidemill's classes have moved since it was written.

    >>> unpickle(pickle.dumps([1, 2]))
    [1, 2]
    """
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError):
        return _Finding(io.BytesIO(data)).load()


class _Finding(pickle.Unpickler):
    """Looks up classes in their current modules."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(current_module(module), name)
