"""The files in the job's storage that sinks write before their commit."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.checkpoint.model import Epoch
from tidemill.checkpoint.names import parse_sink_log, sink_log_name, sink_log_prefix
from tidemill.checkpoint.storage.storages import Storage
from tidemill.connectors.sinks import WriterContext


class StoredSinkLog:
    """The :class:`~tidemill.connectors.sinks.SinkLog` of one sink."""

    def __init__(self, storage: Storage, operator_uid: str) -> None:
        self._storage = storage
        self._uid = operator_uid

    def write(self, context: WriterContext, part: int, data: bytes) -> str:
        name = sink_log_name(context.lineage, Epoch(context.epoch), self._uid, context.subtask, context.attempt, part)
        self._storage.write(name, data)
        return name

    def read(self, name: str) -> bytes:
        return self._storage.read(name)

    def exists(self, name: str) -> bool:
        return self._storage.exists(name)

    def delete(self, names: Sequence[str]) -> None:
        self._storage.delete(names)

    def leftovers(self, in_use: Sequence[str], lineage: str) -> list[str]:
        keep = set(in_use)
        found = ((name, parse_sink_log(name)) for name in self._storage.list(sink_log_prefix(self._uid)))
        return [name for name, log in found if log is not None and log.lineage <= lineage and name not in keep]
