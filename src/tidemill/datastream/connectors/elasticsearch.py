"""Sinks for Elasticsearch, under PyFlink's path. They need the extra ``tidemill[elasticsearch]``."""

from __future__ import annotations

from tidemill.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
    FlushBackoffType,
)

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "FlushBackoffType",
]
