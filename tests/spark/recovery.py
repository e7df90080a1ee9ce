"""Runs of the keyed job that are compared: one without faults, and one that is killed again and again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.java import QUICK_SPARK
from tests.spark.committed import State, committed_head, committed_state, job_directory
from tests.spark.processes import Ended, run
from tests.spark.programs import keyed_job

JOB_ID = "keyed"
#: Two executors with a core each. What a killed one held is not requested again for 15 seconds, as is Spark's default.
CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_SPARK,
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
}
#: The same program in one Python process: what it leaves is the same to the byte.
WITHOUT_SPARK = {"execution.target": "local"}
#: What of a file's name says which job, sink and driver it is from.
_OF_A_DRIVER: Final = re.compile(r"\bpart-[0-9a-f]+-")


@dataclass(frozen=True)
class Result:
    """What a job left: the files of its sinks (see :func:`visible`), and its committed state."""

    files: dict[str, str]
    state: State
    sources: dict[str, Any]


class Run:
    """One run of ``keyed_job.py`` in a folder of its own: its input, its output and what it commits."""

    def __init__(self, folder: Path, *, source: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._starts = 0
        self._arguments = {
            "checkpoints": str(folder / "checkpoints"),
            "output": str(folder / "output"),
            "job_id": JOB_ID,
            "input": None if source is None else str(source),
            "options": dict(options or {}),
        }
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def arguments(self) -> str:
        """What the program is started with."""
        return json.dumps(self._arguments)

    @property
    def directory(self) -> Path:
        """The job's directory."""
        return job_directory(self.folder / "checkpoints", JOB_ID)

    def start(self, *faults: dict[str, Any], seconds: float = 240.0) -> Ended:
        """Start the driver and wait for its end, whatever that is. None of its processes outlive this."""
        self._starts += 1
        log = self.folder / f"start-{self._starts}.log"
        return run("keyed_job.py", self.arguments, faults=faults, log=log, seconds=seconds)

    def finish(self, *faults: dict[str, Any]) -> Result:
        """Start the driver, which must reach the end of the job, and read what it left."""
        ended = self.start(*faults)
        assert ended.code == 0, ended.text[-4000:]
        return self.result()

    def finish_here(self) -> Result:
        """Run the job in this process, in the Spark session that is there, and read what it left."""
        keyed_job.main(self._arguments)
        return self.result()

    def result(self) -> Result:
        """What the job has left."""
        output = self.folder / "output"
        left = [path.name for path in output.rglob(".*") if path.is_file()]
        assert not left, f"files of attempts that never counted are left: {left}"
        return Result(visible(output), committed_state(self.directory), committed_head(self.directory).sources)


def visible(output: Path) -> dict[str, str]:
    """The files that a reader sees, by bucket, subtask and epoch; which driver wrote a file is left out of its name."""
    found = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith(".")]
    files = {_OF_A_DRIVER.sub("part-", str(path.relative_to(output))): path.read_text() for path in found}
    assert len(files) == len(found), "a subtask's results of an epoch are there twice"
    return files
