"""The exactly-once sink on a real PostgreSQL server: whatever dies, each record is in the table once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.postgres_server import DATABASE, PASSWORD, USER, PostgresServer, Sessions, postgres_server
from tests.waiting import eventually
from tidemill.common import Types
from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkWriter, WriterContext
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from tidemill.errors import CheckpointError, ConfigurationError, ConnectorError
from tidemill.faults import Fault, InjectedFaultError, injected
from tidemill.testing import JobHarness

pytestmark = pytest.mark.usefixtures("sessions")

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
INSERT = "INSERT INTO results VALUES (?, ?)"
UPSERT = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET total = excluded.total"
PER_SUBTASK = ["sink.precommit.before", "sink.precommit.after", "ack.before"]
BEFORE_THE_MANIFEST = ["acks.collected", "manifest.before"]
AFTER_THE_MANIFEST = ["manifest.after", "sink.commit.before", "sink.commit.after", "epoch.done"]


@pytest.fixture(autouse=True)
def results(postgres: PostgresServer) -> Callable[[], list[Any]]:
    for name in postgres.prepared():
        postgres.run(f"ROLLBACK PREPARED '{name}'")
    postgres.run("DROP TABLE IF EXISTS results, totals, tidemill_commits")
    postgres.run("CREATE TABLE results (word text, number bigint PRIMARY KEY)")
    postgres.run("CREATE TABLE totals (word text PRIMARY KEY, total bigint)")
    return lambda: [number for (number,) in postgres.run("SELECT number FROM results ORDER BY number")]


def sink_of(
    server: PostgresServer,
    sql: str = INSERT,
    *,
    options: JdbcConnectionOptions | None = None,
    lock_seconds: int = 60,
) -> Sink:
    patience = JdbcExactlyOnceOptions.builder().with_timeout_sec(lock_seconds).build()
    batches = JdbcExecutionOptions.builder().with_batch_size(3).build()
    return JdbcSink.exactly_once_sink(sql, RECORD, options or server.options, batches, patience)


def wait_for_a_session(server: PostgresServer, event: str) -> None:
    """Until a session of the server waits for an event of this name or kind."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE %s IN (wait_event, wait_event_type)"
    eventually(lambda: server.run(waiting, (event,)), what=event)


def inserting(sink: Sink) -> Callable[..., None]:
    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
        numbers.rebalance().map(lambda number: (f"w{number}", number)).sink_to(sink).uid("sink")

    return build


def die(job: JobHarness, sessions: Sessions, point: str, numbers: Sequence[int], skip: int = 0) -> None:
    """An epoch in which the whole job dies, all its connections with it, and comes back."""
    with pytest.raises(InjectedFaultError), injected(Fault(point, skip=skip)):
        job.epoch(numbers=numbers)
    sessions.lose()
    job.restart(crashed=True)


# --- whole jobs


@pytest.mark.parametrize(
    ("point", "skip"),
    [
        *((point, skip) for point in PER_SUBTASK for skip in (0, 1)),
        *((point, 0) for point in (*BEFORE_THE_MANIFEST, *AFTER_THE_MANIFEST)),
    ],
)
def test_a_job_that_dies_anywhere(
    postgres: PostgresServer, sessions: Sessions, results: Any, point: str, skip: int
) -> None:
    with JobHarness(inserting(sink_of(postgres)), inputs=["numbers"]) as job:
        job.epoch(numbers=range(10))
        assert results() == list(range(10))
        die(job, sessions, point, range(10, 20), skip)
        committed = 20 if point in AFTER_THE_MANIFEST else 10
        assert results() == list(range(committed))
        job.run()
        job.epoch(numbers=range(20, 30))
        assert results() == list(range(30))
        job.restart(parallelism=3)
        job.epoch(numbers=range(30, 40))
    assert results() == list(range(40))
    assert postgres.prepared() == []


def test_nothing_is_visible_before_the_epoch_is_committed(postgres: PostgresServer, results: Any) -> None:
    seen: list[list[int]] = []
    with JobHarness(inserting(sink_of(postgres)), inputs=["numbers"]) as job:
        for point in ("sink.precommit.after", "acks.collected", "manifest.after", "sink.commit.after"):
            with injected(Fault(point, action="call", call=lambda: seen.append(results()))):
                job.epoch(numbers=[len(seen)])
    assert seen == [[], [0], [0, 1], [0, 1, 2, 3]]


def test_totals_are_upserted_epoch_after_epoch(postgres: PostgresServer, sessions: Sessions) -> None:
    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
        words = numbers.map(lambda number: (f"w{number % 5}", number))
        words.key_by(lambda pair: pair[0]).sum(1).sink_to(sink_of(postgres, UPSERT)).uid("sink")

    with JobHarness(build, inputs=["numbers"]) as job:
        job.epoch(numbers=range(50))
        die(job, sessions, "sink.precommit.after", range(50, 100), skip=1)
        job.run()  # the rows that the dead attempt had locked are free
        die(job, sessions, "manifest.after", range(100, 150))
        job.epoch(numbers=range(150, 200))
    expected = [(f"w{digit}", sum(range(digit, 200, 5))) for digit in range(5)]
    assert postgres.run("SELECT * FROM totals ORDER BY word") == expected
    assert len(postgres.run("SELECT * FROM tidemill_commits")) <= 2  # of the last epoch only


def test_a_server_that_dies_between_prepare_and_commit() -> None:
    with postgres_server() as server:
        server.run("CREATE TABLE results (word text, number bigint PRIMARY KEY)")
        with JobHarness(inserting(sink_of(server)), inputs=["numbers"]) as job:
            job.epoch(numbers=range(10))
            with injected(Fault("manifest.after", action="call", call=server.restart)):
                job.epoch(numbers=range(10, 20))
            with injected(Fault("sink.commit.after", action="call", call=server.restart)):
                job.epoch(numbers=range(20, 30))
            job.epoch(numbers=range(30, 40))  # the writers' connections are made anew
        assert server.run("SELECT count(*), count(DISTINCT number) FROM results") == [(40, 40)]
        assert server.prepared() == []


def test_a_server_that_dies_while_writers_write_costs_the_attempt(postgres: PostgresServer, results: Any) -> None:
    job = JobHarness(inserting(sink_of(postgres)), inputs=["numbers"], parallelism=1)

    def cut() -> None:
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemill'")

    with (
        injected(Fault("sink.precommit.before", action="call", call=cut)),
        pytest.raises(ConnectorError, match="Nothing of the epoch is committed; it is repeated"),
    ):
        job.epoch(numbers=range(10))
    job.restart()
    job.run()
    job.close()
    assert results() == list(range(10))


# --- one writer and one committer


class Actor:
    """A subtask's writer of some lineage, and a driver's committer."""

    def __init__(self, sink: Sink, lineage: str = "000000000001-a", parallelism: int = 2) -> None:
        self.sink = sink
        self.lineage = lineage
        self.parallelism = parallelism
        committer = sink.create_committer()
        assert committer is not None
        self.committer: Committer = committer
        self.committer.open(CommitterContext("job", "sink"))

    def prepare(self, epoch: int, numbers: Sequence[int], subtask: int = 0, attempt: str = "a1") -> bytes:
        (committable,) = self.begin(epoch, numbers, subtask, attempt).prepare_commit()
        return committable

    def begin(self, epoch: int, numbers: Sequence[int], subtask: int = 0, attempt: str = "a1") -> SinkWriter:
        writer = self.sink.create_writer(subtask, self.parallelism)
        writer.begin_epoch(
            WriterContext("job", "sink", subtask, self.parallelism, self.lineage, epoch, attempt, history="h")
        )
        writer.write([(f"w{number}", number) for number in numbers], None)
        return writer

    def commit(self, epoch: int, *committables: bytes, again: bool = False) -> None:
        parts = [Committed(epoch, subtask, [data], again) for subtask, data in enumerate(committables)]
        self.committer.commit(parts)


def name_of(committable: bytes) -> str:
    name: str = json.loads(committable)["transaction"]
    return name


def test_a_commit_may_come_again_and_late(postgres: PostgresServer, results: Any) -> None:
    old, new = Actor(sink_of(postgres)), Actor(sink_of(postgres), "000000000005-b")
    first = old.prepare(1, [1])
    new.commit(1, first)
    old.commit(1, first)
    new.commit(1, first, again=True)
    second = new.prepare(2, [2])
    new.commit(2, second)
    old.commit(1, first)  # its note is gone by now, but a later one is there
    old.commit(1, first, again=True)
    assert results() == [1, 2]


def test_leftovers_are_rolled_back_and_nothing_else(postgres: PostgresServer, results: Any) -> None:
    old, mine, newer = (Actor(sink_of(postgres), f"00000000000{number}-x") for number in (1, 3, 5))
    orphan, in_use, successors = old.prepare(4, [1]), mine.prepare(5, [2]), newer.prepare(6, [3])
    with postgres.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("PREPARE TRANSACTION 'somebody else''s'")
        connection.execute("BEGIN")
        connection.execute("PREPARE TRANSACTION 'tidemill/job/other/h/000000000001-x/4/0/a1'")
    mine.committer.discard([in_use], mine.lineage)
    left = postgres.prepared()
    assert name_of(orphan) not in left
    assert {name_of(in_use), name_of(successors), "somebody else's"} < set(left)
    assert "tidemill/job/other/h/000000000001-x/4/0/a1" in left
    mine.commit(5, in_use)
    assert results() == [2]
    newer.commit(6, successors)
    assert results() == [2, 3]
    postgres.run("ROLLBACK PREPARED 'somebody else''s'")


def test_what_a_zombie_prepares_late_goes_with_the_next_commit(postgres: PostgresServer, results: Any) -> None:
    zombie, mine = Actor(sink_of(postgres)), Actor(sink_of(postgres), "000000000005-b")
    mine.committer.discard([], mine.lineage)
    late = zombie.prepare(7, [1])
    twin = mine.prepare(7, [2], attempt="twin")
    mine.commit(7, mine.prepare(7, [3]))
    assert name_of(late) not in postgres.prepared()
    assert name_of(twin) in postgres.prepared()  # of this epoch: another subtask's, for all that the committer knows
    mine.commit(8, mine.prepare(8, [4]))
    assert postgres.prepared() == []
    assert results() == [3, 4]


def test_a_transaction_that_was_rolled_back_by_hand_is_not_ignored(postgres: PostgresServer, results: Any) -> None:
    actor = Actor(sink_of(postgres))
    lost = actor.prepare(1, [1])
    postgres.run(f"ROLLBACK PREPARED '{name_of(lost)}'")
    with pytest.raises(CheckpointError, match="another user or program rolled it back"):
        actor.commit(1, lost)
    with pytest.raises(CheckpointError, match="another user or program rolled it back") as raised:
        actor.commit(1, lost, again=True)
    # The message says how to continue without it.
    postgres.run(str(raised.value).partition("to continue without them: ")[2])
    actor.commit(1, lost, again=True)
    actor.commit(2, actor.prepare(2, [2]))
    assert results() == [2]


def test_for_two_subtasks_that_write_one_row_the_error_suggests_key_by(postgres: PostgresServer) -> None:
    actor = Actor(sink_of(postgres, UPSERT, lock_seconds=1))
    actor.prepare(1, [7], subtask=0)
    with pytest.raises(ConnectorError, match=r"Key the stream by the fields that(?s:.*)statement: INSERT INTO"):
        actor.begin(1, [7], subtask=1).prepare_commit()


def test_a_row_that_a_lost_attempt_holds_is_free_after_a_restart(postgres: PostgresServer) -> None:
    actor = Actor(sink_of(postgres, UPSERT, lock_seconds=1))
    lost = actor.prepare(1, [7], attempt="lost")
    with pytest.raises(ConnectorError, match="It is rolled back when the job is restarted") as raised:
        actor.begin(1, [7], attempt="next").prepare_commit()
    assert f"ROLLBACK PREPARED '{name_of(lost)}'" in str(raised.value)
    successor = Actor(sink_of(postgres, UPSERT), "000000000002-b")
    successor.committer.discard([], successor.lineage)
    successor.commit(1, successor.prepare(1, [7]))
    assert postgres.run("SELECT * FROM totals") == [("w7", 7)]


def test_a_row_that_another_session_locks_is_waited_for(postgres: PostgresServer) -> None:
    postgres.run("INSERT INTO totals VALUES ('w7', 0)")
    with postgres.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM totals FOR UPDATE")
        with pytest.raises(ConnectorError, match="locked by another user or program for 1 s"):
            Actor(sink_of(postgres, UPSERT, lock_seconds=1)).begin(1, [7]).prepare_commit()

        def release() -> None:
            wait_for_a_session(postgres, "Lock")
            other.execute("ROLLBACK")

        actor = Actor(sink_of(postgres, UPSERT))
        with ThreadPoolExecutor(1) as thread:
            released = thread.submit(release)
            actor.commit(1, actor.prepare(1, [7]))
            released.result()
    assert postgres.run("SELECT * FROM totals") == [("w7", 7)]


#: Has whoever writes w2 wait until someone else waits for a lock: there is a deadlock then, whoever is slow.
MEETING = """
CREATE OR REPLACE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted)
        AND EXISTS (SELECT FROM totals WHERE word = 'w2' AND total = 0)
    LOOP PERFORM pg_sleep(0.01); END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER meet BEFORE INSERT ON totals FOR EACH ROW WHEN (NEW.word = 'w2') EXECUTE FUNCTION meet()
"""


def test_a_deadlock_costs_a_batch_and_not_the_epoch(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.run("INSERT INTO totals VALUES ('w1', 0), ('w2', 0)")
    postgres.run(MEETING)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    builder.with_url(f"{postgres.url}?options=-c%20deadlock_timeout%3D10ms").with_user_name(USER)
    actor = Actor(sink_of(postgres, UPSERT, options=builder.with_password(PASSWORD).build()))
    with postgres.connect() as other, ThreadPoolExecutor(1) as thread:
        other.execute("SET deadlock_timeout = '600s'")  # the sink's batch is what the server cancels
        other.execute("BEGIN")
        other.execute("UPDATE totals SET total = -1 WHERE word = 'w2'")

        def cross() -> None:
            wait_for_a_session(postgres, "PgSleep")  # the sink has locked w1
            other.execute("UPDATE totals SET total = -1 WHERE word = 'w1'")
            other.execute("COMMIT")

        crossed = thread.submit(cross)
        pauses: list[int] = []

        def pause(attempt: int) -> None:
            pauses.append(attempt)
            crossed.result()

        monkeypatch.setattr("tidemill.connectors.jdbc.exactly_once.pause", pause)
        actor.commit(1, actor.prepare(1, [1, 2, 3]))
    assert pauses == [0]
    assert postgres.run("SELECT * FROM totals ORDER BY word") == [("w1", 1), ("w2", 2), ("w3", 3)]


def test_a_record_that_is_refused_is_shown(postgres: PostgresServer) -> None:
    actor = Actor(sink_of(postgres))
    with pytest.raises(ConnectorError, match=r"duplicate key(?s:.*)record: \('w2', 2\)"):
        actor.begin(1, [1, 2, 3, 4, 2]).prepare_commit()


def test_a_constraint_that_is_checked_at_the_end_fails_the_epoch(postgres: PostgresServer) -> None:
    postgres.run("ALTER TABLE results DROP CONSTRAINT results_pkey")
    postgres.run("ALTER TABLE results ADD UNIQUE (number) DEFERRABLE INITIALLY DEFERRED")
    actor = Actor(sink_of(postgres))
    with pytest.raises(ConnectorError, match=r"could not be prepared(?s:.*)duplicate key"):
        actor.begin(1, [1, 2, 2]).prepare_commit()
    assert postgres.prepared() == []


def test_a_writer_is_used_again_after_an_epoch_that_failed(postgres: PostgresServer, results: Any) -> None:
    actor = Actor(sink_of(postgres))
    writer = actor.begin(1, [1, 2, 3, 4])
    writer.begin_epoch(WriterContext("job", "sink", 0, 2, actor.lineage, 1, "a2", history="h"))
    assert writer.prepare_commit() == ()  # an epoch without records has nothing to commit
    writer.begin_epoch(WriterContext("job", "sink", 0, 2, actor.lineage, 2, "a3", history="h"))
    writer.write([("w5", 5)], None)
    actor.commit(2, *writer.prepare_commit())
    assert results() == [5]


# --- servers and users that are not up to it


def test_a_server_that_does_not_prepare_transactions_is_refused_at_the_start() -> None:
    problem = "set max_prepared_transactions in postgresql"
    with postgres_server(max_prepared_transactions="0") as server, pytest.raises(ConfigurationError, match=problem):
        JobHarness(inserting(sink_of(server)), inputs=["numbers"])


def test_a_server_with_too_few_of_them_is_refused_by_the_first_writer(postgres: PostgresServer) -> None:
    actor = Actor(sink_of(postgres), parallelism=41)
    with pytest.raises(ConfigurationError, match=r"at most 40 prepared transactions.*each of its 41 subtasks"):
        actor.begin(1, [1]).prepare_commit()


def test_a_user_without_permission_to_create_the_table_gets_the_statement_to_run(
    postgres: PostgresServer, results: Any
) -> None:
    postgres.run("DROP ROLE IF EXISTS writer")
    postgres.run("CREATE ROLE writer LOGIN PASSWORD 'another'")
    postgres.run("GRANT SELECT, INSERT ON results TO writer")
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(postgres.url)
    options = builder.with_user_name("writer").with_password("another").build()
    with pytest.raises(ConfigurationError, match="has no permission to create it") as raised:
        Actor(sink_of(postgres, options=options))
    postgres.run(str(raised.value).partition("as an administrator, run ")[2].partition(";")[0])
    postgres.run("GRANT SELECT, INSERT, DELETE ON tidemill_commits TO writer")
    actor = Actor(sink_of(postgres, options=options))
    actor.commit(1, actor.prepare(1, [1]))
    assert results() == [1]
    postgres.run("REVOKE ALL ON results, tidemill_commits FROM writer")
    postgres.run("DROP ROLE writer")


def test_a_job_that_continues_in_another_database_is_stopped(postgres: PostgresServer) -> None:
    committable = Actor(sink_of(postgres)).prepare(1, [1])
    postgres.run("CREATE DATABASE elsewhere")
    url = postgres.url.removesuffix(DATABASE) + "elsewhere"
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    moved = Actor(sink_of(postgres, options=builder.with_user_name(USER).with_password(PASSWORD).build()))
    with pytest.raises(CheckpointError, match="prepared in database 'postgres'"):
        moved.commit(1, committable, again=True)


def test_a_server_that_is_gone_fails_the_commit_in_time(postgres: PostgresServer, results: Any) -> None:
    impatient = JdbcExactlyOnceOptions.builder().with_max_commit_attempts(2).build()
    with postgres_server() as server:
        server.run("CREATE TABLE results (word text, number bigint)")
        actor = Actor(JdbcSink.exactly_once_sink(INSERT, RECORD, server.options, None, impatient))
        committable = actor.prepare(1, [1])
        server.kill()
        with pytest.raises(ConnectorError, match=r"Connection refused.*tried 2 times"):
            actor.commit(1, committable)
        server.start()
        actor.commit(1, committable, again=True)
        assert server.run("SELECT number FROM results") == [(1,)]
