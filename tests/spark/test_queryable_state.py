"""Queryable state of a job on Spark: what is read while it runs, is rescaled and killed is what it had committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.jobs import durable, environment
from tidemill.common import Types
from tidemill.datastream.state import ReducingStateDescriptor
from tidemill.ops.queryable import QueryableStateClient, address_of, stop_queryable_state
from tidemill.state_processor import read

pytestmark = pytest.mark.usefixtures("spark")

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
COUNTS = ReducingStateDescriptor("counts", lambda one, two: (one[0], one[1] + two[1]), PAIR)
KEYS, NUMBERS = 13, 10_000_000  # so many that it cannot be over before it is cancelled


def test_reads_go_on_while_a_job_runs_is_rescaled_and_is_cancelled(tmp_path: Path) -> None:
    options = {
        **durable(tmp_path, "queried"),
        "execution.epoch.max-records": "20",
        "queryable-state.enable": "true",
        "queryable-state.proxy.ports": "0",
    }
    env = environment(options)
    numbers = env.from_sequence(1, NUMBERS).uid("numbers").map(lambda n: (n % KEYS, 1), PAIR).uid("ones")
    numbers.key_by(0, Types.LONG()).as_queryable_state("counts", COUNTS)
    client = env.execute_async("queried")
    try:
        answers: list[tuple[int, int]] = []
        with QueryableStateClient(*address_of("queried", 60), timeout=60) as queries:

            def look(key: int) -> None:
                found: Any = queries.get_kv_state("queried", "counts", key, Types.LONG(), COUNTS).result(90)
                assert found.get()[0] == key
                answers.append((found.epoch, found.get()[1]))

            look(3)
            for width in (1, 3):
                done, before = client.rescale(width), answers[-1][0]
                while not done.done() or answers[-1][0] == before:
                    look(3)
                done.result()
            client.cancel().result(60)
            committed = read(str(tmp_path / "queried"))
            while answers[-1][0] < committed.epoch:  # until the server has seen the last one
                look(3)
            look(3)
            assert answers[-1] == (committed.epoch, committed.get("queryable-state-counts", "counts", 3)[1])
        assert answers == sorted(answers)
        assert len({epoch for epoch, _ in answers}) > 2
        assert all(len({count for at, count in answers if at == epoch}) == 1 for epoch, _ in answers)
    finally:
        stop_queryable_state("queried")
