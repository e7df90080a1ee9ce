"""A sink that writes documents with the bulk API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tidemill.common.calls import call_each
from tidemill.connectors.elasticsearch.actions import Action, ElasticsearchEmitter
from tidemill.connectors.elasticsearch.bulk import BulkClient
from tidemill.connectors.elasticsearch.options import BulkOptions
from tidemill.connectors.sinks import Sink, SinkWriter, WriterContext
from tidemill.datastream.functions.base import RuntimeContext

__all__ = ["ElasticsearchSink", "OpensearchSink"]


class ElasticsearchSink(Sink):
    """Writes each record as a document; created with a builder.

    Documents are written while the epoch runs, and the epoch is committed only after the cluster has acknowledged all
    of them. When an epoch is repeated, its documents are written again: with a key field they replace themselves, with
    generated ids they are duplicated.
    """

    def __init__(self, emitter: ElasticsearchEmitter, options: BulkOptions) -> None:
        self.guarantee = "at-least-once" if emitter.key_field is None else "effectively-once"
        self._emitter = emitter
        self._options = options

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own connections."""
        return _BulkWriter(self._emitter, self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.guarantee}, {self._emitter!r} of {self._options.shown})"


class OpensearchSink(ElasticsearchSink):
    """The same for OpenSearch."""


class _BulkWriter(SinkWriter):
    def __init__(self, emitter: ElasticsearchEmitter, options: BulkOptions) -> None:
        # configuration
        self._emitter = emitter
        self._options = options
        self._most = options.max_actions if options.max_actions > 0 else None
        self._most_bytes = options.max_size_mb << 20 if options.max_size_mb > 0 else None
        # transient
        self._client: BulkClient | None = None
        self._actions: list[Action] = []
        self._since = 0.0

    def open(self, runtime_context: RuntimeContext) -> None:
        self._client = BulkClient(self._options)

    def begin_epoch(self, context: WriterContext) -> None:
        self._actions = []

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        if not self._actions:
            self._since = time.monotonic()
        self._actions += call_each(self._emitter.action, values, lambda error, position: error)
        self._flush(whole=False)
        interval = self._options.interval
        if self._actions and 0 < interval <= (time.monotonic() - self._since) * 1000:
            self._flush(whole=True)

    def prepare_commit(self) -> Sequence[bytes]:
        self._flush(whole=True)
        return ()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _flush(self, *, whole: bool) -> None:
        """Send what is buffered in requests of the configured size; only full ones unless ``whole``."""
        if self._client is None:
            raise RuntimeError("open() must be called before the first record")
        done = 0
        while done < len(self._actions):
            end, full = self._request(done)
            if not (full or whole):
                break
            self._client.send(self._actions[done:end])
            done = end
            self._since = time.monotonic()
        del self._actions[:done]

    def _request(self, start: int) -> tuple[int, bool]:
        """Return the end of the request that begins at ``start``, and whether it is full."""
        end = len(self._actions) if self._most is None else min(len(self._actions), start + self._most)
        if self._most_bytes is not None:
            size = 0
            for position in range(start, end):
                size += len(self._actions[position].data)
                if size >= self._most_bytes:
                    # An action that does not fit begins the next request, unless it is too large for any.
                    return max(start + 1, position if size > self._most_bytes else position + 1), True
        return end, self._most is not None and end - start == self._most
