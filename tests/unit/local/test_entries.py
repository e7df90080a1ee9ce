"""The positions of topics in manifests, in the form of Spark's offset log."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.errors import GraphError
from tidemill.local.kafka.entries import Entries
from tidemill.runtime.start.spark_positions import arranged

HEADER = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{"x":"y"}}'


def of_spark(**sources: str) -> dict[str, Any]:
    """What a job on Spark has stored: its sources, each with its line."""
    numbers = {uid: [[number, number, "kafka"]] for number, uid in enumerate(sources)}
    return {"batch_id": 7, "offsets": "\n".join([HEADER, *sources.values()]), "lineage": "5-a", "sources": numbers}


def entries(stored: dict[str, Any] | None, *uids: str) -> Entries:
    return Entries(uids, stored, allow_non_restored=False, elsewhere=())


def test_positions_of_spark_are_continued_by_uid_and_spark_continues_them() -> None:
    stored = of_spark(a='{"a":{"0":3}}', b='{"b":{"0":5}}')
    ours = entries(stored, "b", "a", "new")
    assert ours.lines == {"b": '{"b":{"0":5}}', "a": '{"a":{"0":3}}', "new": None}
    after = ours.after({"b": '{"b":{"0":6}}'}, {"b": {"b": "id"}}, "9-b")
    assert after["offsets"] == "\n".join([HEADER, '{"b":{"0":6}}', '{"a":{"0":3}}', "-"])
    assert after["batch_id"] == 8
    assert after["topics"] == {"b": {"b": "id"}}
    numbers: Any = {"a": [[0, 0, "kafka"]], "b": [[1, 1, "kafka"]], "new": [[2, 2, "kafka"]]}
    offsets, _ = arranged(after, numbers, allow_non_restored=False)
    assert offsets == "\n".join([HEADER, '{"a":{"0":3}}', '{"b":{"0":6}}', "-"])


def test_an_epoch_without_records_repeats_its_batch() -> None:
    ours = entries(None, "a")
    assert ours.after({"a": "1"}, {}, "9-b")["batch_id"] == 0
    assert ours.after({"a": "1"}, {}, "9-b")["batch_id"] == 0
    assert ours.after({"a": "2"}, {}, "9-b")["batch_id"] == 1


def test_positions_of_other_sources_are_not_lost_silently() -> None:
    with pytest.raises(GraphError, match="has a position of the Spark source with uid 'gone'"):
        entries(of_spark(gone="1"), "a")
    rate = {**of_spark(a="1"), "sources": {"a": [[0, 0, "RateStreamV2"]]}}
    with pytest.raises(GraphError, match="was stored with a position in RateStreamV2, and now reads kafka"):
        entries(rate, "a")
