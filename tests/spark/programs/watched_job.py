"""A job that counts the words of a watched directory, one file per epoch, wherever it keeps its checkpoints.

Run as a program it takes one argument, a JSON object ``{"input": dir, "output": dir, "options": {key: value}}``, and
runs until it is ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.spark.jobs import environment
from tests.spark.kafka_jobs import Count
from tidemill.common import Encoder, JobClient, Types, run_main
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy


def start(source: Path, output: Path, options: dict[str, str]) -> JobClient:
    """Start the job."""
    env = environment({"pipeline.max-parallelism": "8", **options})
    lines = env.read_json(str(source), "word STRING", {"maxFilesPerTrigger": "1"}, watch=True).uid("words")
    words = lines.map(lambda row: row[0], Types.STRING())
    counts = words.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count")
    counts.sink_to(
        FileSink.for_row_format(str(output), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    ).uid("sink")
    return env.execute_async("watched")


def main(arguments: dict[str, Any]) -> None:
    client = start(Path(arguments["input"]), Path(arguments["output"]), arguments["options"])
    client.get_job_execution_result().result()


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(json.loads(sys.argv[1]))))
