"""Counts words: the smallest stateful program.

python -m examples.word_count                   # on Spark
python -m examples.word_count --target local    # in this process, without Spark
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from tidemill.common import Configuration, Types
from tidemill.datastream import StreamExecutionEnvironment

TEXT = """To be, or not to be, that is the question:
Whether 'tis nobler in the mind to suffer
The slings and arrows of outrageous fortune,
Or to take arms against a sea of troubles"""


def words(line: str) -> Iterator[str]:
    """The words of a line, in lower case."""
    for word in line.lower().split():
        if cleaned := word.strip(",:'"):
            yield cleaned


def main(arguments: Sequence[str] | None = None) -> dict[str, int]:
    """Run the program and return the final count of each word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    options = parser.parse_args(arguments)

    configuration = Configuration().set_string("execution.target", options.target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    counts = (
        env.from_collection(TEXT.splitlines(), Types.STRING())
        .flat_map(words)
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(0)
        .sum(1)
        .uid("word-counts")
    )
    return dict(counts.execute_and_collect("word count"))


if __name__ == "__main__":
    for word, count in sorted(main().items(), key=lambda pair: (-pair[1], pair[0])):
        print(f"{count:3} {word}")
