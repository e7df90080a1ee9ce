"""Input data: Parquet files of (key, value), written once per run. All contenders read the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Rows per row group, which is the unit that one task reads.
ROW_GROUP = 50_000


def write_input(directory: Path, keys: int, records: int, files: int) -> Path:
    """Write ``records`` rows with uniformly distributed keys to ``files`` files, and return the directory."""
    directory.mkdir(parents=True)
    generator = np.random.default_rng(keys)
    per_file = records // files
    for number in range(files):
        table = pa.table(
            {
                "k": generator.integers(0, keys, per_file),
                "v": np.arange(number * per_file, (number + 1) * per_file),
            }
        )
        pq.write_table(table, directory / f"part-{number:05d}.parquet", row_group_size=ROW_GROUP)
    return directory
