"""Determines whether a program generates watermarks from a source and, if so, which file each row is from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from tidemill.datastream.program.specs import SourceSpec, TimestampsSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.graph.plan import ChainPlan
from tidemill.runtime.batch.columns import FILE_COLUMN
from tidemill.runtime.operators.source import does_nothing


def has_event_time(chain: ChainPlan, operators: Mapping[str, Transformation]) -> bool:
    """Whether an operator of a source's chain generates watermarks; ``operators`` are the program's, by uid."""
    taken = [operators[operator.uid].taken for operator in chain.operators]
    strategies = [one.on_driver.watermarks for one in taken if isinstance(one.on_driver, SourceSpec)]
    return any(one.kind is TimestampsSpec for one in taken) or any(
        strategy is not None and not does_nothing(strategy) for strategy in strategies
    )


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
