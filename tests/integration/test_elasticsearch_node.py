"""The Elasticsearch sink on a real node, under the contract of sinks without a committer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.elasticsearch_node import ElasticsearchNode, elasticsearch_node
from tests.thorough import WHEN_THOROUGH
from tests.unit.connectors.sink_epochs import context
from tidemill.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
)
from tidemill.errors import ConnectorError
from tidemill.testing.sink_contract import WRITER_CASES, SinkCase, check_sink

pytestmark = WHEN_THOROUGH


class Record(NamedTuple):
    number: int
    text: str


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElasticsearchNode]:
    with elasticsearch_node(tmp_path_factory.mktemp("elasticsearch")) as running:
        yield running


def write(sink: ElasticsearchSink, *records: Any) -> None:
    writer = sink.create_writer(0, 1)
    writer.open(None)  # type: ignore[arg-type]  # it is not used
    try:
        writer.begin_epoch(context(1))
        writer.write(list(records), None)
        writer.prepare_commit()
    finally:
        writer.close()


@pytest.mark.parametrize("key", ["number", None])
@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_documents(case: SinkCase, key: str | None, node: ElasticsearchNode, tmp_path: Path) -> None:
    index = f"records-{tmp_path.name.lower().replace('[', '').replace(']', '')}"
    emitter = ElasticsearchEmitter.static_index(index, key)

    def sink() -> ElasticsearchSink:
        return Elasticsearch7SinkBuilder().set_hosts(node.host).set_emitter(emitter).set_socket_timeout(120_000).build()

    check_sink(
        case,
        sink,
        lambda: [Record(**document) for document in node.documents(index)],
        record=lambda number: Record(number, f"text {number}"),
    )


def test_updates_and_types(node: ElasticsearchNode) -> None:
    typed = ElasticsearchEmitter.static_index("typed", "id")
    sink = Elasticsearch6SinkBuilder().set_hosts(node.host).set_emitter(typed).set_socket_timeout(120_000).build()
    write(sink, {"id": 1, "a": 1}, {"id": 1, "b": 2}, {"id": 1, "a": 3})
    assert node.documents("typed") == [{"id": 1, "a": 3, "b": 2}]


def test_a_document_that_the_mapping_rejects(node: ElasticsearchNode) -> None:
    node.request("PUT", "/strict", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    emitter = ElasticsearchEmitter.static_index("strict")
    sink = Elasticsearch7SinkBuilder().set_hosts(node.host).set_emitter(emitter).set_socket_timeout(120_000).build()
    with pytest.raises(ConnectorError, match=r"status 400: .*mapper_parsing_exception(.|\n)*record: \{'n': 'many'\}"):
        write(sink, {"n": 1}, {"n": "many"})
