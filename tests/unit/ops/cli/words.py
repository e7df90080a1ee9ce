"""Jobs that count words, on the local engine."""

from __future__ import annotations

from pathlib import Path

from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment

#: A program as a user writes it: it says nothing about where it runs.
SCRIPT = """\
import sys

from tidemill.common import Types
from tidemill.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
words = env.from_collection(sys.argv[1:] or ["to be"], Types.STRING()).uid("lines").flat_map(str.split).uid("words")
pairs = words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()])).uid("pairs")
counts = pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("counts")
print("parallelism", env.get_parallelism())
print(sorted(counts.execute_and_collect("count words")))
"""


def words_job(directory: Path, job_id: str, lines: list[str]) -> None:
    """Run a job to its end; its checkpoints stay."""
    settings = {
        "execution.target": "local",
        "execution.checkpointing.dir": str(directory),
        "execution.job-id": job_id,
        "execution.epoch.max-records": "2",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    words = env.from_collection(lines, Types.STRING()).uid("lines").flat_map(str.split).uid("words")
    pairs = words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()])).uid("pairs")
    list(pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("counts").execute_and_collect())
