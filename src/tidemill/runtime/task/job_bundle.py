"""The part of a job that is the same for all epochs, as it is sent to workers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from tidemill.checkpoint.storage.storages import Storage
from tidemill.graph.plan import JobPlan
from tidemill.runtime.observe.logs import LogSettings
from tidemill.runtime.task.chain import ChainSettings
from tidemill.runtime.task.delivery import Shipment
from tidemill.runtime.task.pieces import PieceForm


@dataclass(frozen=True)
class JobBundle:
    """The constant part of a job, shipped to the workers once."""

    job_id: str
    plan: JobPlan
    storage: Storage
    settings: ChainSettings = field(default_factory=ChainSettings)
    schemas: dict[int, bytes] = field(default_factory=dict)
    parcel_size: int = 1 << 20
    form: PieceForm = field(default_factory=PieceForm)
    sort_memory: int = 128 << 20
    cache_size: int = 1 << 30
    main_classes: tuple[bytes, ...] = ()
    logs: LogSettings = field(default_factory=LogSettings)
    dependencies: Shipment = field(default_factory=Shipment)

    def chain_schema(self, chain: int) -> pa.Schema | None:
        """The Arrow schema of a chain whose source the engine reads."""
        data = self.schemas.get(chain)
        return None if data is None else pa.ipc.read_schema(pa.py_buffer(data))
