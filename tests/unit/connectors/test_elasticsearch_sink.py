"""Documents, requests, retries and errors of the Elasticsearch sink, on a server in this process."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.bulk_server import BulkServer, basic, bulk_server
from tests.ports import refusing_port
from tests.unit.connectors.sink_epochs import context
from tidemill.common import Row, Types
from tidemill.common.time import Instant
from tidemill.connectors.base import DeliveryGuarantee
from tidemill.connectors.elasticsearch.options import BulkOptions, host_of
from tidemill.connectors.sinks import SinkWriter
from tidemill.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from tidemill.datastream.connectors.opensearch import OpensearchEmitter, OpensearchSinkBuilder
from tidemill.errors import ConfigurationError, ConnectorError, TypeMismatchError
from tidemill.testing import run_local

Builder = Elasticsearch6SinkBuilder | Elasticsearch7SinkBuilder | OpensearchSinkBuilder


@pytest.fixture
def server() -> Iterator[BulkServer]:
    with bulk_server() as running:
        yield running


def builder(server: BulkServer, key: str | None = "id") -> Elasticsearch7SinkBuilder:
    return Elasticsearch7SinkBuilder().set_hosts(server.host).set_emitter(ElasticsearchEmitter.static_index("i", key))


def opened(of: Builder) -> SinkWriter:
    writer = of.build().create_writer(0, 1)
    writer.open(None)  # type: ignore[arg-type]  # it is not used
    writer.begin_epoch(context(1))
    return writer


def written(of: Builder, records: list[Any]) -> None:
    writer = opened(of)
    try:
        writer.write(records, None)
        writer.prepare_commit()
    finally:
        writer.close()


# --- documents


class Point(NamedTuple):
    id: int
    x: float


@dataclass
class Person:
    id: int
    name: str


@pytest.mark.parametrize(
    ("record", "document"),
    [
        ({"id": 1, "a": None}, {"id": 1, "a": None}),
        (Row(id=1, inner=Row(b=2), many=[1, 2]), {"id": 1, "inner": {"b": 2}, "many": [1, 2]}),
        (Point(1, 0.5), {"id": 1, "x": 0.5}),
        (Person(1, "Ada"), {"id": 1, "name": "Ada"}),
        ({"id": np.int64(1), "many": np.array([1.5, 2.5])}, {"id": 1, "many": [1.5, 2.5]}),
        ({"id": 1, "d": dt.date(2026, 1, 2)}, {"id": 1, "d": "2026-01-02"}),
        (
            {"id": 1, "t": dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone.utc)},
            {"id": 1, "t": "2026-01-02T03:00:00+00:00"},
        ),
        ({"id": 1, "t": Instant(1, 500_000_000)}, {"id": 1, "t": "1970-01-01T00:00:01.500000+00:00"}),
        ({"id": 1, "n": Decimal("12.50"), "m": Decimal(7)}, {"id": 1, "n": 12.5, "m": 7}),
        ({"id": 1, "b": b"\x00\xff"}, {"id": 1, "b": "AP8="}),
        ({"id": 1, "u": uuid.UUID(int=5)}, {"id": 1, "u": "00000000-0000-0000-0000-000000000005"}),
        ({"id": 1, "text": "línea\nuno \u2028"}, {"id": 1, "text": "línea\nuno \u2028"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records_become_documents(server: BulkServer, record: Any, document: dict[str, Any]) -> None:
    written(builder(server), [record])
    assert server.indices == {"i": {"1": document}}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (("a", 1), "needs named fields"),
        (None, "needs named fields"),
        (Row("a", 1), "needs named fields"),
        ({"name": "Ada"}, "no field 'id'"),
        ({"id": None}, "no field 'id'"),
        ({"id": 1, "x": float("nan")}, "JSON"),
        ({"id": 1, "x": object}, "there is no JSON for type"),
        ({"id": 1, "x": Decimal("0.1234567890123456789")}, "convert it to a string"),
    ],
)
def test_a_record_that_is_no_document_is_an_error(server: BulkServer, record: Any, words: str) -> None:
    with pytest.raises(TypeMismatchError, match=words):
        written(builder(server), [record])
    assert server.indices == {}


def test_the_index_may_be_a_field(server: BulkServer) -> None:
    emitter = ElasticsearchEmitter.dynamic_index("kind", "id")
    written(builder(server).set_emitter(emitter), [{"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}])
    assert server.indices == {"a": {"1": {"id": 1, "kind": "a"}}, "b": {"2": {"id": 2, "kind": "b"}}}
    with pytest.raises(TypeMismatchError, match="'kind', which is its index"):
        written(builder(server).set_emitter(emitter), [{"id": 1}])


def test_a_record_updates_its_document(server: BulkServer) -> None:
    written(builder(server), [{"id": 1, "a": 1}, {"id": 1, "b": 2}, {"id": 1, "a": 3}])
    assert server.documents("i") == [{"id": 1, "a": 3, "b": 2}]


def test_without_a_key_each_record_is_a_document(server: BulkServer) -> None:
    sink = builder(server, None)
    written(sink, [{"id": 1}, {"id": 1}])
    assert server.documents("i") == [{"id": 1}, {"id": 1}]
    assert sink.build().guarantee == "at-least-once"
    assert builder(server).build().guarantee == "effectively-once"


@pytest.mark.parametrize(("version", "kind"), [(6, Elasticsearch6SinkBuilder), (8, Elasticsearch7SinkBuilder)])
def test_types_of_documents_by_version(version: int, kind: type[Elasticsearch6SinkBuilder]) -> None:
    with bulk_server(version) as server:
        written(kind().set_hosts(server.host).set_emitter(ElasticsearchEmitter.static_index("i", "id")), [{"id": 1}])
        assert server.documents("i") == [{"id": 1}]
        typed = ElasticsearchEmitter.static_index("i", "id", "user")
        if version == 8:
            with pytest.raises(ConnectorError, match=r"unknown parameter \[_type\]"):
                written(kind().set_hosts(server.host).set_emitter(typed), [{"id": 1}])


def test_opensearch(server: BulkServer) -> None:
    emitter = OpensearchEmitter.static_index("i", "id")
    sink = OpensearchSinkBuilder().set_hosts([server.host]).set_emitter(emitter)
    written(sink, [{"id": 1}])
    assert server.documents("i") == [{"id": 1}]
    assert repr(sink.build()).startswith("OpensearchSink(effectively-once, OpensearchEmitter(index 'i', key 'id')")


# --- requests


def test_requests_have_at_most_so_many_actions(server: BulkServer) -> None:
    writer = opened(builder(server).set_bulk_flush_max_actions(3))
    writer.write([{"id": n} for n in range(7)], None)
    assert server.requests == [3, 3]
    writer.write([{"id": 7}], None)
    writer.prepare_commit()
    assert server.requests == [3, 3, 2]
    writer.close()


def test_a_thousand_actions_by_default(server: BulkServer) -> None:
    written(builder(server), [{"id": n} for n in range(1001)])
    assert server.requests == [1000, 1]
    server.requests.clear()
    written(builder(server).set_bulk_flush_max_actions(-1), [{"id": n} for n in range(1001)])
    assert server.requests == [1001]


def test_requests_have_at_most_so_many_bytes(server: BulkServer) -> None:
    text = "x" * 400_000
    written(builder(server).set_bulk_flush_max_size_mb(1), [{"id": n, "text": text} for n in range(5)])
    assert server.requests == [2, 2, 1]
    server.requests.clear()
    written(builder(server).set_bulk_flush_max_size_mb(1), [{"id": 0, "text": "x" * (2 << 20)}, {"id": 1}])
    assert server.requests == [1, 1]


def test_requests_are_sent_after_an_interval(server: BulkServer) -> None:
    writer = opened(builder(server).set_bulk_flush_interval(1))
    writer.write([{"id": 1}], None)
    while not server.requests:
        writer.write([{"id": 2}], None)
    writer.close()


def test_what_a_failed_epoch_has_buffered_is_not_sent(server: BulkServer) -> None:
    writer = opened(builder(server))
    writer.write([{"id": 1}], None)
    writer.begin_epoch(context(1))
    writer.write([{"id": 2}], None)
    writer.prepare_commit()
    assert server.documents("i") == [{"id": 2}]
    writer.close()


def test_login_and_path(server: BulkServer) -> None:
    of = builder(server).set_connection_username("shop").set_connection_password("canary-sesame")
    written(of.set_connection_path_prefix("search/"), [{"id": 1}])
    assert server.paths == ["/search/_bulk"]
    assert server.authorizations == [basic("shop", "canary-sesame")]
    assert "canary" not in repr(of.build())


# --- failures


def refuse_once(server: BulkServer, status: int, *ids: str, times: int = 1) -> None:
    left = dict.fromkeys(ids, times)

    def refuse(kind: str, target: dict[str, Any], document: dict[str, Any]) -> int | None:
        if left.get(target["_id"], 0) > 0:
            left[target["_id"]] -= 1
            return status
        return None

    server.refuse = refuse


@pytest.mark.parametrize("status", [409, 429, 503])
def test_refused_actions_are_repeated(server: BulkServer, status: int) -> None:
    refuse_once(server, status, "2", times=2)
    of = builder(server).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 2, 1)
    written(of, [{"id": n} for n in range(4)])
    assert server.requests == [4, 1, 1]
    assert sorted(document["id"] for document in server.documents("i")) == [0, 1, 2, 3]


def test_later_actions_on_a_refused_document_are_repeated_too(server: BulkServer) -> None:
    """Else the repeated action, which is the older one, would win."""
    refuse_once(server, 429, "1")
    of = builder(server).set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 1, 1)
    written(of, [{"id": 1, "n": "first"}, {"id": 2, "n": "other"}, {"id": 1, "n": "last"}])
    assert server.indices["i"]["1"] == {"id": 1, "n": "last"}
    assert server.requests == [3, 2]


def test_without_a_strategy_nothing_is_repeated(server: BulkServer) -> None:
    refuse_once(server, 429, "1")
    with pytest.raises(ConnectorError, match="update was rejected with status 429"):
        written(builder(server), [{"id": 1}])


def test_retries_come_to_an_end(server: BulkServer) -> None:
    refuse_once(server, 429, "1", times=100)
    of = builder(server).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 1)
    with pytest.raises(ConnectorError, match=r"status 429.*\(tried 4 times\)"):
        written(of, [{"id": 1}])
    assert len(server.requests) == 4


def test_an_action_that_can_never_succeed_fails_the_job_with_its_record(server: BulkServer) -> None:
    refuse_once(server, 400, "7")
    of = builder(server).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 1)
    with pytest.raises(ConnectorError, match=r"status 400.*the test says so(.|\n)*record: \{'id': 7\}"):
        written(of, [{"id": 6}, {"id": 7}])
    assert len(server.requests) == 1


@pytest.mark.parametrize("trouble", [0, 429, 502, 503, 504])
def test_a_failed_request_is_repeated(server: BulkServer, trouble: int) -> None:
    server.troubles = [trouble]
    written(builder(server).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 1, 1), [{"id": 1}])
    assert server.documents("i") == [{"id": 1}]
    server.troubles = [trouble]
    with pytest.raises(ConnectorError, match=f"{server.host}: a request"):
        written(builder(server), [{"id": 1}])


@pytest.mark.parametrize("trouble", [400, 401, 403, 404, 500])
def test_a_rejected_request_is_not(server: BulkServer, trouble: int) -> None:
    server.troubles = [trouble]
    of = builder(server).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 5, 1)
    with pytest.raises(ConnectorError, match=f"status {trouble}: .*trouble {trouble}"):
        written(of, [{"id": 1}])
    assert server.requests == []


def test_a_request_that_is_too_large(server: BulkServer) -> None:
    server.most_bytes = 100
    with pytest.raises(ConnectorError, match=r"reduce set_bulk_flush_max_size_mb"):
        written(builder(server), [{"id": 1, "text": "x" * 200}])


def test_a_response_that_lacks_actions_is_an_error(server: BulkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "bulk", lambda body: (200, {"errors": False, "items": []}))
    with pytest.raises(ConnectorError, match="does not list the 1 actions"):
        written(builder(server), [{"id": 1}])


def test_a_slow_cluster_is_given_up(server: BulkServer) -> None:
    server.delay = 3
    with pytest.raises(ConnectorError, match="a request failed"):
        written(builder(server).set_socket_timeout(50), [{"id": 1}])


def test_another_node_takes_over(server: BulkServer) -> None:
    with refusing_port() as port:
        for _ in range(4):  # the client begins with any of them
            written(builder(server).set_hosts([f"http://127.0.0.1:{port}", server.host]), [{"id": 1}])
        with pytest.raises(ConnectorError, match=f"127.0.0.1:{port}"):
            written(builder(server).set_hosts(f"127.0.0.1:{port}"), [{"id": 1}])


# --- settings


def test_delays() -> None:
    constant = BulkOptions("x", (), backoff=FlushBackoffType.CONSTANT, max_retries=3, delay=100)
    assert [constant.delay_before(n) for n in range(4)] == [0.1, 0.1, 0.1, None]
    growing = BulkOptions("x", (), backoff=FlushBackoffType.EXPONENTIAL, max_retries=100, delay=1000)
    assert [growing.delay_before(n) for n in (0, 1, 2, 6, 99)] == [1, 2, 4, 60, 60]
    assert BulkOptions("x", ()).delay_before(0) is None


@pytest.mark.parametrize("text", ["ftp://host:1", "http://", "http://host:99999", "http://host:9200/path", ""])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not the address of a node"):
        host_of(text)


def test_settings_are_checked() -> None:
    of = Elasticsearch7SinkBuilder()
    with pytest.raises(ConfigurationError, match="set_emitter"):
        of.build()
    with pytest.raises(ConfigurationError, match="set_hosts"):
        of.set_emitter(ElasticsearchEmitter.static_index("i")).build()
    with pytest.raises(ConfigurationError, match="EXACTLY_ONCE"):
        of.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ConfigurationError, match="a number of actions"):
        of.set_bulk_flush_max_actions(0)
    with pytest.raises(ConfigurationError, match="needs set_connection_username"):
        of.set_hosts("a:1").set_connection_password("x").build()
    with pytest.raises(TypeError, match="FlushBackoffType"):
        of.set_bulk_flush_backoff_strategy("CONSTANT", 1, 1)  # type: ignore[arg-type]
    for accepted in DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE:
        of.set_delivery_guarantee(accepted)
    assert of.get_http_host_class() is str


def test_a_program(server: BulkServer) -> None:
    """As PyFlink's documentation has it: maps of a declared type."""
    records = [{"name": "ada", "id": "1"}, {"name": "luna", "id": "2"}]

    def program(env: Any) -> Any:
        stream = env.from_collection(records, type_info=Types.MAP(Types.STRING(), Types.STRING()))
        sink = Elasticsearch7SinkBuilder().set_emitter(ElasticsearchEmitter.static_index("foo", "id"))
        sink.set_hosts([server.host]).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        sink.set_bulk_flush_max_actions(1).set_bulk_flush_max_size_mb(2).set_bulk_flush_interval(1000)
        sink.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 3000)
        sink.set_connection_request_timeout(30000).set_connection_timeout(31000).set_socket_timeout(32000)
        stream.sink_to(sink.build()).name("es sink")
        return stream

    run_local(program, parallelism=2)
    assert server.indices["foo"] == {record["id"]: record for record in records}
    assert json.loads(json.dumps(server.requests)) == [1, 1]
