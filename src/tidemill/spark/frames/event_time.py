"""Adds the file that each row is from, for programs that generate watermarks from files."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from tidemill.runtime.batch.columns import FILE_COLUMN


def with_files(frame: DataFrame) -> DataFrame:
    """Return the frame with a column that identifies the file of each row: null if the row has none, or no longer.

    Each file that a task reads has its own event time. After a shuffle, the file of a row is no longer known. For a
    frame that reads several sources, Spark refuses to report the file. If Python computes columns or rows (a UDF,
    mapInPandas), Spark reads ahead and reports the file it has reached by then, which may be the wrong one.
    """
    plan = frame._jdf.queryExecution().analyzed()
    pattern: Any = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr]
    if plan.collectLeaves().size() != 1 or plan.containsPattern(pattern.PYTHON_UDF()):
        return frame
    name = F.input_file_name()
    return frame.withColumn(FILE_COLUMN, F.when(name != "", F.xxhash64(name)))
