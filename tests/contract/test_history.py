"""A job whose checkpoints are in an object store leaves its history there, and it is shown from there."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.object_store import BUCKET, object_store
from tidemill.common import Configuration
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.ops.rest.archived_jobs import ArchivedJobs
from tidemill.ops.rest.state_readers import state_reader
from tidemill.runtime.history.archive import HistoryFiles


def test_the_history_of_a_job_in_an_object_store(tmp_path: Path) -> None:
    with object_store(tmp_path / "server.log") as server:
        place = f"s3://{BUCKET}/{uuid.uuid4()}"
        access = {f"s3.{key}": value for key, value in server.options.items()}
        job = {"execution.target": "local", "execution.checkpointing.dir": place, "execution.job-id": "sums"}
        retained = {"historyserver.archive.retained-jobs": "1"}
        configuration = Configuration.from_dict({**access, **job, **retained, "execution.resume-mode": "none"})
        for _ in range(2):
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            numbers = env.from_sequence(1, 100).uid("numbers").map(lambda n: (n % 3, n)).uid("pairs")
            sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums")
            sums.filter(lambda _: False).print()
            env.execute("sums")
        assert len(HistoryFiles.at(f"{place}/_history", configuration).names()) == 1, "the older one is deleted"
        jobs = ArchivedJobs([f"{place}/_history"], Configuration.from_dict(access))
        try:
            (listed,) = jobs.overviews()
            assert (listed["jid"], listed["state"]) == ("sums", "FINISHED")
            found = jobs.find("sums")
            assert found is not None
            assert found.outline.configuration.to_dict()["s3.secret-key"] == "******"
            assert [one.uid for one in state_reader(found, None).operators()] == ["sums"]
        finally:
            jobs.close()
