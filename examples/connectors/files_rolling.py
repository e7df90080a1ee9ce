"""Writes access logs to compressed files: one directory per status, and few files regardless of the number of epochs.

python -m examples.connectors.files_rolling                   # on Spark
python -m examples.connectors.files_rolling --target local    # in this process, without Spark
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Sequence
from pathlib import Path

from examples.support.target import environment
from tidemill.common import Encoder
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy


class ByStatus(BucketAssigner):
    """Assigns a line to the bucket of its status, which is its third word."""

    def get_bucket_id(self, value: str, timestamp: int | None, processing_time: int) -> str:
        return f"status={value.split()[2]}"


def main(arguments: Sequence[str] | None = None) -> dict[str, tuple[int, int]]:
    """Run the program and return the number of files and lines in each directory."""
    env = environment(__doc__, arguments, {"execution.epoch.max-records": "50"}).set_parallelism(1)
    lines = env.from_sequence(1, 1000).map(lambda n: f"GET /page/{n} {404 if n % 10 == 0 else 200}")
    with tempfile.TemporaryDirectory() as folder:
        sink = (
            FileSink.for_row_format(folder, Encoder.simple_string_encoder())
            .with_compression("gzip")
            .with_bucket_assigner(ByStatus())
            .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=16 * 1024 * 1024))
            .with_output_file_config(OutputFileConfig("access", ".log"))
            .build()
        )
        lines.sink_to(sink).uid("access-log")
        env.execute("access log")
        found = {}
        for bucket in sorted(Path(folder).iterdir()):
            files = [gzip.decompress(file.read_bytes()) for file in bucket.glob("access-*.log.gz")]
            found[bucket.name] = (len(files), sum(len(text.splitlines()) for text in files))
        return found


if __name__ == "__main__":
    for name, (count, lines) in main().items():
        print(f"{name}: {lines} lines, files: {count}")
