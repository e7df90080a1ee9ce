"""Configuration options: Flink's keys and Tidemill's additional keys.

:data:`REGISTRY` contains every key. The typed options are grouped in classes, one per subject::

    conf.get(CheckpointingOptions.INTERVAL)   # a timedelta, or None

Durations are :class:`datetime.timedelta`, memory sizes are a number of bytes.

Start with ``options.py``; ``option.py`` and ``values.py`` define what an option is and how its values are parsed. The
class ``Configuration`` is not here but in ``tidemill.common.configuration``.
"""

from __future__ import annotations

from typing import Any

from tidemill.config.accepted import ACCEPTED, FAMILIES
from tidemill.config.flink_keys import flink_keys
from tidemill.config.history_options import HistoryOptions
from tidemill.config.logging_options import LoggingOptions
from tidemill.config.option import ConfigOption, KeyFamily, Registry, option
from tidemill.config.options import (
    CheckpointingOptions,
    ExecutionOptions,
    FileOptions,
    MetricOptions,
    PipelineOptions,
    RestOptions,
    SparkOptions,
    StateOptions,
    StateRecoveryOptions,
    TaskOptions,
)
from tidemill.config.python_options import PythonOptions
from tidemill.config.queryable_options import QueryableStateOptions
from tidemill.config.redaction import REDACTED
from tidemill.config.restart_options import RestartStrategyOptions
from tidemill.config.rocksdb_options import RocksDBOptions

__all__ = [
    "REDACTED",
    "REGISTRY",
    "CheckpointingOptions",
    "ConfigOption",
    "ExecutionOptions",
    "FileOptions",
    "HistoryOptions",
    "KeyFamily",
    "LoggingOptions",
    "MetricOptions",
    "PipelineOptions",
    "PythonOptions",
    "QueryableStateOptions",
    "Registry",
    "RestOptions",
    "RestartStrategyOptions",
    "RocksDBOptions",
    "SparkOptions",
    "StateOptions",
    "StateRecoveryOptions",
    "TaskOptions",
    "option",
]

_GROUPS: tuple[type, ...] = (
    PipelineOptions,
    PythonOptions,
    ExecutionOptions,
    TaskOptions,
    CheckpointingOptions,
    StateRecoveryOptions,
    StateOptions,
    FileOptions,
    RocksDBOptions,
    RestartStrategyOptions,
    SparkOptions,
    MetricOptions,
    LoggingOptions,
    RestOptions,
    QueryableStateOptions,
    HistoryOptions,
)


def _options_of(group: type) -> list[ConfigOption[Any]]:
    return [value for value in vars(group).values() if isinstance(value, ConfigOption)]


#: Every known option and key family, and the keys of Flink.
REGISTRY = Registry([*(known for group in _GROUPS for known in _options_of(group)), *ACCEPTED], FAMILIES, flink_keys)
