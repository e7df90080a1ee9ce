"""State as data: reads and writes the committed state of a job without running it, like Flink's State Processor API.

>>> from tidemill import state_processor
>>> state_processor.read("/no/such/directory")
Traceback (most recent call last):
    ...
tidemill.errors.CheckpointError: /no/such/directory is not the directory of a job: there are no manifests in it

Start with ``reader.py`` and ``writer.py``. DataFrames of state are in ``tidemill.spark.output``, queries of a running
job in ``tidemill.ops.queryable``, and the format of state files in ``tidemill.state.files``.
"""

from __future__ import annotations

from tidemill.state_processor.bootstrap import (
    BootstrapTransformation,
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    StateBootstrapFunction,
)
from tidemill.state_processor.catalog import OperatorInfo, StateInfo
from tidemill.state_processor.job_directory import EpochInfo
from tidemill.state_processor.merged import Entry
from tidemill.state_processor.reader import SavepointReader, read
from tidemill.state_processor.writer import SavepointWriter

__all__ = [
    "BootstrapTransformation",
    "BroadcastStateBootstrapFunction",
    "Entry",
    "EpochInfo",
    "KeyedStateBootstrapFunction",
    "OperatorInfo",
    "OperatorTransformation",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
    "StateInfo",
    "read",
]
