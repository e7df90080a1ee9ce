"""The Cassandra sink on a model of the driver: order, retries, nulls, errors, the log, and the contract of sinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.cassandra_model import Model, TimedOutError, cluster_of, library
from tidemill.common import Configuration, Row
from tidemill.common.time import Duration
from tidemill.connectors.cassandra import cluster, sinks, statements
from tidemill.connectors.cassandra.sinks import LoggedStatementSink, StatementSink
from tidemill.connectors.cassandra.statements import Statements, WriteOptions
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from tidemill.errors import ConfigurationError, ConnectorError, TypeMismatchError
from tidemill.testing.sink_contract import SINK_CASES, WRITER_CASES, SinkCase, check_sink

QUERY = "INSERT INTO t (id, a, b) VALUES (?, ?, ?)"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    for module in (cluster, statements):
        monkeypatch.setattr(module, "cassandra_library", library)
    monkeypatch.setattr(statements, "_PAUSES", (0, 0, 0, 0))
    running = Model("model")
    yield running
    assert running.open == 0, "all sessions are closed"


def builder() -> ClusterBuilder:
    return ClusterBuilder(partial(cluster_of, "model"))


def write(*records: Any, **options: Any) -> None:
    opened = Statements(WriteOptions(builder(), QUERY, **options))
    try:
        opened.write(records)
    finally:
        opened.close()


@dataclass
class Record:
    id: int
    a: str
    b: Any


@pytest.mark.parametrize(
    "record",
    [(1, "x", None), [1, "x", None], Row(1, "x", None), Record(1, "x", None), {"b": None, "a": "x", "id": 1}],
    ids=lambda record: type(record).__name__,
)
def test_records(model: Model, record: Any) -> None:
    write(record)
    assert model.rows("t") == [{"id": 1, "a": "x", "b": None}]


@pytest.mark.parametrize("record", [(1, "x"), (1, "x", 2, 3), {"id": 1}, 7])
def test_records_that_do_not_match(model: Model, record: Any) -> None:
    with pytest.raises(TypeMismatchError):
        write((0, "x", 0), record)


def test_the_last_record_with_a_key_wins_also_when_some_are_repeated(model: Model) -> None:
    failures = iter([None, TimedOutError("first"), None, None, TimedOutError("second")])
    model.fails = lambda columns: next(failures, None)
    write((1, "old", 0), (2, "old", 0), (1, "new", 0), (2, "new", 0))
    assert {row["id"]: row["a"] for row in model.rows("t")} == {1: "new", 2: "new"}


def test_requests_in_flight_are_limited(model: Model) -> None:
    write(*((n, "", n) for n in range(50)), max_requests=7)
    assert model.most_waiting == 7
    assert len(model.rows("t")) == 50


def test_nulls_can_be_left_out(model: Model) -> None:
    write((1, "x", 5), (1, None, None), {"id": 1, "a": None, "b": 6}, ignore_nulls=True)
    assert model.rows("t") == [{"id": 1, "a": "x", "b": 6}]
    write((1, None, None))
    assert model.rows("t") == [{"id": 1, "a": None, "b": None}]


def test_retries_come_to_an_end(model: Model) -> None:
    model.fails = lambda columns: TimedOutError("too slow") if columns["id"] == 2 else None
    with pytest.raises(ConnectorError, match=r"TimedOutError: too slow \(tried 5 times\)(.|\n)*record: \(2, 'x', 0\)"):
        write((1, "x", 0), (2, "x", 0), (3, "x", 0))


def test_what_cannot_succeed_is_not_repeated(model: Model) -> None:
    tried = []

    def fails(columns: Mapping[str, Any]) -> Exception:
        tried.append(columns)
        return ValueError("wrong")

    model.fails = fails
    with pytest.raises(ConnectorError, match=r"ValueError: wrong\n"):
        write((1, "x", 0))
    assert len(tried) == 1


def test_a_handler_may_drop_a_record(model: Model) -> None:
    dropped: list[str] = []
    model.fails = lambda columns: ValueError("wrong") if columns["id"] == 2 else None
    handler = CassandraFailureHandler(lambda error: dropped.append(str(error)))
    write((1, "x", 0), (2, "x", 0), (3, "x", 0), handler=handler)
    assert sorted(row["id"] for row in model.rows("t")) == [1, 3]
    assert len(dropped) == 1
    for refusing in (CassandraFailureHandler.no_op(), CassandraFailureHandler.default_failure_handler()):
        with pytest.raises(ConnectorError):
            write((2, "x", 0), handler=refusing)


def test_a_query_or_a_keyspace_that_is_rejected(model: Model) -> None:
    with pytest.raises(ConnectorError, match=r"rejected the query: line 1:0(.|\n)*query: nonsense"):
        Statements(WriteOptions(builder(), "nonsense"))
    model.open += 1  # the model counts a session only when it is connected
    with pytest.raises(ConnectorError, match=r"keyspace 'none' cannot be used"):
        Statements(WriteOptions(builder(), QUERY, key_space="none"))


# ----------------------------------------------------------------------------------------------------------- contract


def record(number: int) -> tuple[int, str, None]:
    return number, f"text {number}", None


def visible(model: Model) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in model.rows("t")]


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_writing_while_the_epoch_runs(case: SinkCase, model: Model) -> None:
    check_sink(case, lambda: StatementSink(WriteOptions(builder(), QUERY)), lambda: visible(model), record=record)
    model.open = 0  # those of processes that died are never closed


@pytest.mark.parametrize("case", SINK_CASES, ids=str)
def test_writing_from_the_log(case: SinkCase, model: Model) -> None:
    options = WriteOptions(builder(), QUERY)
    check_sink(case, lambda: LoggedStatementSink(options, None), lambda: visible(model), record=record)
    model.open = 0


# ------------------------------------------------------------------------------------------------------------ builder


def test_the_builder(model: Model) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("execution.target", "local"))
    options = MapperOptions.simple_mapper_options().ttl(1).timestamp(1).tracing(True).save_null_fields(True)
    sink = (
        CassandraSink.add_sink(env.from_collection([(1, "x", None), (2, "y", None)]))
        .set_query(QUERY)
        .set_cluster_builder(builder())
        .set_default_key_space("shop")
        .set_mapper_options(options.if_not_exists(False).consistency_level(ConsistencyLevel.QUORUM))
        .set_failure_handler(CassandraFailureHandler.no_op())
        .set_max_concurrent_requests(2, Duration.of_seconds(5))
        .enable_ignore_null_fields()
        .build()
    )
    sink.name("totals").uid("totals").set_parallelism(1).disable_chaining().slot_sharing_group("other")
    env.execute()
    assert sorted(row["id"] for row in model.rows("t")) == [1, 2]
    assert model.levels == {"quorum"}
    model.open = 0


def test_the_builder_with_a_log(model: Model) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("execution.target", "local"))
    committer = CassandraCommitter.default_checkpoint_committer(builder(), "notes")
    new = CassandraSink.add_sink(env.from_collection([(1, "x", 2)])).set_query(QUERY).set_cluster_builder(builder())
    new.enable_write_ahead_log(committer).build()
    env.execute()
    assert model.rows("t") == [{"id": 1, "a": "x", "b": 2}]
    assert len(model.rows(f"notes.{sinks._TABLE}")) == 1
    model.open = 0


def test_settings_are_checked() -> None:
    new = CassandraSink.add_sink(None)
    with pytest.raises(ConfigurationError, match=r"set_query\(\)"):
        new.build()
    with pytest.raises(ConfigurationError, match=r"set_host\(\)"):
        new.set_query(QUERY).build()
    with pytest.raises(ConfigurationError, match="at least one request"):
        new.set_max_concurrent_requests(0)
    with pytest.raises(ConfigurationError, match="function"):
        ClusterBuilder().build_cluster()
