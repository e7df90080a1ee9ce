"""What the tests of the runtime share: small programs, compiled, with their storage."""

from __future__ import annotations

from typing import Any

from tidemill.checkpoint.storage.storages import MemoryStorage, Storage
from tidemill.common import Configuration
from tidemill.config import ExecutionOptions
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.runtime.driver.launch import Launch, prepare
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.testing.recording_sink import Recording, RecordingSink


def launch(build: Any, recording: Recording | None = None, *, parallelism: int = 2) -> Launch:
    """Compile a program whose stream ends in a recording sink."""
    configuration = Configuration()
    configuration.set(ExecutionOptions.JOB_ID, "unit")
    env = StreamExecutionEnvironment(configuration)
    build(env).sink_to(RecordingSink(recording)).uid("sink")
    return prepare(env._program("unit"), parallelism)


def bundle(build: Any, storage: Storage | None = None, *, parallelism: int = 2) -> JobBundle:
    """The part of a compiled program that workers need."""
    return launch(build, parallelism=parallelism).bundle(storage or MemoryStorage())
