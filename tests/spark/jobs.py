"""Environments and results of jobs that run in the shared session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidemill.common import Configuration
from tidemill.datastream import DataStream, StreamExecutionEnvironment


def environment(options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    """An environment for the active Spark session.

    Epochs have as many records as they may have, on a slow machine too, unless ``options`` say otherwise.
    """
    configuration = Configuration()
    defaults = {"parallelism.default": "2", "execution.epoch.max-duration": "2 min"}
    for key, value in {**defaults, **(options or {})}.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def durable(checkpoints: Path, job_id: str = "job", **more: str) -> dict[str, str]:
    """Options of a job that can be started again."""
    return {"execution.checkpointing.dir": str(checkpoints), "execution.job-id": job_id, **more}


def add_file(path: Path, text: str) -> None:
    """Put a whole file into a directory that is watched: who meets one that is still empty takes it as read."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.rename(path)


def collected(stream: DataStream) -> list[Any]:
    """All records of a stream, by running the job."""
    with stream.execute_and_collect() as results:
        return list(results)
