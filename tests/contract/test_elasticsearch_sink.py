"""The Elasticsearch sink under the contract of sinks without a committer, on a server that has the bulk API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.bulk_server import BulkServer, bulk_server
from tidemill.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
)
from tidemill.testing.sink_contract import WRITER_CASES, SinkCase, check_sink


@pytest.fixture
def server() -> Iterator[BulkServer]:
    with bulk_server() as running:
        yield running


class Record(NamedTuple):
    number: int
    text: str


def record(number: int) -> Record:
    return Record(number, f"text {number}")


def visible(server: BulkServer) -> list[Any]:
    return [Record(**document) for document in server.documents("records")]


def sink_of(server: BulkServer, key: str | None) -> Callable[[], ElasticsearchSink]:
    emitter = ElasticsearchEmitter.static_index("records", key)
    return lambda: Elasticsearch7SinkBuilder().set_hosts(server.host).set_emitter(emitter).build()


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_documents_with_a_key(case: SinkCase, server: BulkServer) -> None:
    check_sink(case, sink_of(server, "number"), lambda: visible(server), record=record)


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_documents_with_generated_ids(case: SinkCase, server: BulkServer) -> None:
    check_sink(case, sink_of(server, None), lambda: visible(server), record=record)
