"""Reads a streaming DataFrame: Spark watches a directory, and each batch of new files becomes one epoch.

The stream is unbounded. The program stops reading after five results, which cancels the job.

Run it with ``python -m examples.streaming_dataframe``. It needs Spark.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from tidemill.common import Row
from tidemill.datastream import StreamExecutionEnvironment

FILES = [
    [{"player": "ann", "points": 3}, {"player": "bob", "points": 5}],
    [{"player": "ann", "points": 4}],
    [{"player": "bob", "points": 1}, {"player": "ann", "points": 2}],
]


def score(row: Row, total: int | None) -> tuple[str, int]:
    """Return the line to print, and the new state of the player."""
    new = (total or 0) + row.points
    return f"{row.player} has {new} points", new


def main() -> None:
    spark = SparkSession.builder.master("local[2,4]").appName("streaming_dataframe").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for number, rows in enumerate(FILES):
            file = Path(folder, f"{number}.json")
            file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
            os.utime(file, (number, number))  # Spark reads the oldest file first
        stream = spark.readStream.schema("player STRING, points LONG").option("maxFilesPerTrigger", 1).json(folder)

        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        scores = env.from_dataframe(stream).key_by("player").map_with_state(score).uid("scores")
        for line in sorted(scores.execute_and_collect("streaming dataframe", limit=5)):
            print(line)


if __name__ == "__main__":
    main()
