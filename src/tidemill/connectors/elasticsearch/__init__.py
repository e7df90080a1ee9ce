"""Sinks for Elasticsearch and OpenSearch, with PyFlink's class names. They need the extra ``tidemill[elasticsearch]``.

Start with ``sink.py``. ``actions.py`` converts records to actions of the bulk API, ``bulk.py`` sends them and evaluates
the response, and ``builders.py`` has the builders. This is not PyFlink's import path: programs use
``tidemill.datastream.connectors.elasticsearch`` or ``.opensearch``.
"""

from __future__ import annotations

from tidemill.connectors.elasticsearch.actions import ElasticsearchEmitter, OpensearchEmitter
from tidemill.connectors.elasticsearch.builders import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchSinkBuilderBase,
    OpensearchSinkBuilder,
)
from tidemill.connectors.elasticsearch.options import FlushBackoffType
from tidemill.connectors.elasticsearch.sink import ElasticsearchSink, OpensearchSink

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "FlushBackoffType",
    "OpensearchEmitter",
    "OpensearchSink",
    "OpensearchSinkBuilder",
]
