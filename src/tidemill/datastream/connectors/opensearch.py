"""A sink for OpenSearch, with the names of Flink's Java classes. It needs the extra ``tidemill[elasticsearch]``."""

from __future__ import annotations

from tidemill.connectors.elasticsearch import (
    FlushBackoffType,
    OpensearchEmitter,
    OpensearchSink,
    OpensearchSinkBuilder,
)

__all__ = [
    "FlushBackoffType",
    "OpensearchEmitter",
    "OpensearchSink",
    "OpensearchSinkBuilder",
]
