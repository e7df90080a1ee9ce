"""State as data: what a job has committed, read without the job, as Flink's State Processor API does.

>>> from tidemill import state_processor
>>> state_processor.read("/no/such/directory")
Traceback (most recent call last):
    ...
tidemill.errors.CheckpointError: /no/such/directory is not the directory of a job: there are no manifests in it
"""

from __future__ import annotations

from tidemill.state_processor.catalog import OperatorInfo, StateInfo
from tidemill.state_processor.job_directory import EpochInfo
from tidemill.state_processor.merged import Entry
from tidemill.state_processor.reader import SavepointReader, read

__all__ = ["Entry", "EpochInfo", "OperatorInfo", "SavepointReader", "StateInfo", "read"]
