"""How far a query is behind, from progress as Spark reports it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tidemill.spark.streams.progress import SourceLag, pending_records

KAFKA = {
    "description": "KafkaV2[Subscribe[orders]]",
    "startOffset": {"orders": {"0": 1}},
    "endOffset": {"orders": {"0": 5, "1": 5}},
    "latestOffset": {"orders": {"0": 7, "1": 5, "2": 3}},
}
FILES = {"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 4}, "latestOffset": {"logOffset": 5}}
RATE = {"description": "RateStreamV2", "endOffset": 4, "latestOffset": 9}


def test_records_of_all_partitions_are_counted_also_new_ones() -> None:
    assert pending_records({"sources": [KAFKA]}, {"uid": [[0, 0, "kafka"]]}) == {"uid": 5}


def test_a_source_of_several_streams_waits_for_the_records_of_all() -> None:
    numbers = {"both": [[0, 0, ""], [1, 1, ""]], "first": [[2, 0, ""]]}
    assert pending_records({"sources": [KAFKA, KAFKA]}, numbers) == {"both": 10, "first": 5}


@pytest.mark.parametrize("source", [FILES, RATE, {}, {**KAFKA, "latestOffset": None}])
def test_where_offsets_are_no_records_nothing_is_said(source: Mapping[str, Any]) -> None:
    assert pending_records({"sources": [source]}, {"uid": [[0, 0, ""]]}) == {}
    assert pending_records({"sources": [source, KAFKA]}, {"uid": [[0, 0, ""], [1, 1, ""]]}) == {}


def test_progress_before_the_first_batch_says_nothing() -> None:
    assert pending_records({"sources": []}, {"uid": [[0, 0, ""]]}) == {}


def test_spark_is_polled_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Query:
        asked = 0

        @property
        def _jsq(self) -> Query:
            return self

        def lastProgress(self) -> Query | None:
            self.asked += 1
            return self if self.asked > 1 else None

        def json(self) -> str:
            return json.dumps({"sources": [KAFKA]})

    now = 0.0
    monkeypatch.setattr("tidemill.spark.streams.progress.time.monotonic", lambda: now)
    query, told = Query(), list[Mapping[str, int]]()
    lag = SourceLag(query, {"uid": [[0, 0, "kafka"]]}, told.append)
    for _ in range(100):
        now += 0.05
        lag.look()
    assert query.asked in (4, 5)
    assert told == [{"uid": 5}] * (query.asked - 1)
