"""The REST server of a driver on Spark: a job is watched, rescaled, saved and stopped from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.jobs import durable, environment
from tests.unit.ops.rest.serving import client_of
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("spark")


def test_a_job_on_spark_is_steered_over_rest(tmp_path: Path) -> None:
    env = environment(
        durable(tmp_path / "checkpoints", "served")
        | {
            "rest.enabled": "true",
            "rest.port": "0",
            "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
            "execution.epoch.max-records": "100",
            "execution.epoch.max-duration": "0 ms",  # so that it is 100, on a slow machine too
        }
    )
    numbers = env.from_sequence(1, 100_000_000).uid("numbers").map(lambda n: (n % 10, n)).uid("pairs")
    sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums")
    sums.filter(lambda pair: False).print()
    job = env.execute_async("served")
    with client_of(job) as (client, path):
        try:
            eventually(lambda: client.read(path)["epoch"] > 1)
            epoch = client.read(f"{path}/epochs")["epochs"][-1]
            assert epoch["records"] == 100
            assert epoch["phases"]["compute"] > 0
            begun = client.ask("PATCH", f"{path}/rescaling?parallelism=1").json["request-id"]
            assert client.finished(f"{path}/rescaling/{begun}") == {}
            assert client.read(f"{path}/vertices/sums")["parallelism"] == 1
            entry = client.read(f"{path}/state/sums/_reduce_state?key=7")
            assert entry["entries"][0]["value"] == [7, sum(range(7, 100 * entry["epoch"] + 1, 10))]
            begun = client.ask("POST", f"{path}/stop", {}).json["request-id"]
            saved = client.finished(f"{path}/savepoints/{begun}")
            assert Path(saved["location"], "_metadata").exists()
            assert client.read(path)["state"] == "FINISHED"
        finally:
            job.cancel().result(60)
