"""Sinks for Elasticsearch, under PyFlink's path. They need the extra ``tidemill[elasticsearch]``."""

from __future__ import annotations

from tidemill.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
    ElasticsearchSinkBuilderBase,
    FlushBackoffType,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "FlushBackoffType",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(("DeliveryGuarantee", "Sink"), "tidemill.connectors.base"),
    },
)
