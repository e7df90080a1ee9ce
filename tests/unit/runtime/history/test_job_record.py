"""What is recorded of a job is read back as it was, and nothing else is taken for a record."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.runtime.history.records import record
from tidemill.common.reports.hot_keys import HotKey, HotKeys
from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope, MetricValue
from tidemill.errors import CorruptFileError, NewerFormatError
from tidemill.graph.guarantees import promises
from tidemill.runtime.history.job_record import FORMAT_VERSION, JobRecord


def test_a_record_is_read_as_it_was_written() -> None:
    written = record()
    assert JobRecord.from_json(written.to_json(), "here") == written
    assert json.loads(written.to_json())["version"] == FORMAT_VERSION
    assert [one.guarantee for one in promises(written.plan)] == ["exactly-once"]


def test_numbers_that_json_does_not_have_are_left_out() -> None:
    empty = HistogramValue(0, 0.0, math.inf, -math.inf)
    numbers: dict[str, float | HistogramValue] = {"inf": math.inf, "nan": math.nan, "none": empty, "one": 1.0}
    values = tuple(MetricValue(MetricScope.JOB, name, MetricKind.GAUGE, value) for name, value in numbers.items())
    whole = record()
    found = JobRecord.from_json(replace(whole, metrics=replace(whole.metrics, values=values)).to_json(), "here").metrics
    assert [(one.name, one.value) for one in found] == [("none", HistogramValue(0, 0.0, 0.0, 0.0)), ("one", 1.0)]


def test_text_of_any_kind_survives() -> None:
    odd = "水车\ud800\x00\N{WATER WAVE}"
    keys = {odd: HotKeys((HotKey(odd, odd, 1.0, 1),), 1)}
    written = replace(record(), name=odd, hot_keys=keys, configuration={odd: odd})
    # A snapshot of metrics has the name too.
    written = replace(written, metrics=replace(written.metrics, job_name=odd))
    assert JobRecord.from_json(written.to_json(), "here") == written


def test_a_record_of_a_newer_version_is_refused() -> None:
    document = json.loads(record().to_json())
    document["version"] = FORMAT_VERSION + 1
    with pytest.raises(NewerFormatError, match=f"there has version {FORMAT_VERSION + 1}"):
        JobRecord.from_json(json.dumps(document).encode(), "there")


def damaged() -> list[bytes]:
    """Records with any one part missing, or replaced by something else."""
    whole = record().to_json()
    found = [b"", b"{}", b"[]", b"null", b"\xff", whole[:-1], b"[" * 100_000]
    document: dict[str, Any] = json.loads(whole)
    for field in document:
        found.append(json.dumps({key: value for key, value in document.items() if key != field}).encode())
        if field != "log":
            found.append(json.dumps({**document, field: None}).encode())
    for field, wrong in {"status": "WELL", "plan": {}, "epochs": [{}], "metrics": [1], "parallelism": [[1]]}.items():
        found.append(json.dumps({**document, field: wrong}).encode())
    return found


@pytest.mark.parametrize("data", damaged())
def test_what_is_no_record_is_reported_with_its_file(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"^there is not the record of a job"):
        JobRecord.from_json(data, "there")
