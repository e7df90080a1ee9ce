"""Metrics and logs of jobs on Spark: counted and written in the workers, seen on the driver."""

from __future__ import annotations

import json
import logging
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.ports import own_ports
from tests.spark.jobs import durable, environment
from tests.waiting import eventually
from tidemill.common.reports.metric_value import HistogramValue
from tidemill.datastream import MapFunction

pytestmark = pytest.mark.usefixtures("spark")


class Watched(MapFunction):
    """Counts and logs; what is written to the worker's standard error goes to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.sizes = group.histogram("sizes")

    def map(self, value: Any) -> Any:
        self.seen.inc()
        self.sizes.update(value)
        if value % 50 == 0:
            before = sys.stderr
            with (self.folder / f"stderr-{self.subtask}").open("a") as sys.stderr:
                logging.getLogger("shop").warning("fifty, password=%s", "hunter2")
            sys.stderr = before
        return value


def test_functions_count_and_log_in_workers(tmp_path: Path) -> None:
    options = {"execution.epoch.max-records": "100", "logging.format": "json"}
    env = environment(options)
    watched = env.from_sequence(1, 300).map(Watched(tmp_path)).uid("watched")
    watched.key_by(lambda n: n % 10).reduce(lambda a, b: a + b).uid("sum").filter(lambda n: False).print()
    client = env.execute_async("watched")
    client.get_job_execution_result().result()
    metrics = client.get_metrics()
    assert metrics.total("seen") == metrics.total("numRecordsOut", operator="watched") == 300
    sizes = metrics.get("sizes")
    assert isinstance(sizes, HistogramValue)
    assert (sizes.count, sizes.min, sizes.max) == (300, 1, 300)
    assert metrics.get("numEpochs") == metrics.get("numberOfCompletedCheckpoints") == 3
    assert metrics.total("stateEntries", operator="sum") == 10
    assert metrics.total("numBytesIn") == metrics.total("numBytesOut") > 0
    assert metrics.total("accumulateBusyTimeMs") > 0
    lines = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert sorted(line["epoch"] for line in lines) == [1, 1, 2, 2, 3, 3]
    assert {(line["uid"], line["message"]) for line in lines} == {("watched", "fifty, password=******")}
    assert {line["job"] for line in lines} == {str(client.get_job_id())}
    assert {line["subtask"] for line in lines} <= {0, 1}


def test_a_stream_of_sparks_is_scraped_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    (port,) = own_ports(1)
    env = environment(durable(tmp_path, "scraped") | {"metrics.reporter.prom.port": str(port)})
    frame = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    env.from_dataframe(frame).uid("rate").map(lambda row: row.value).uid("values").filter(lambda n: False).print()
    client = env.execute_async("scraped")
    try:
        labels = 'job_id="scraped",job_name="scraped",operator_id="values"'

        def scraped() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
            return bool(re.search(rf"^tidemill_operator_numRecordsIn_total{{{labels}.*}} [1-9]", text, re.MULTILINE))

        eventually(scraped, what="records are counted")
    finally:
        client.cancel().result()
