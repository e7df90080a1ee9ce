from __future__ import annotations

import datetime as dt
import pickle

import pytest

from tidemill.common import Duration, Instant, Time
from tidemill.common.time import as_millis


def test_durations() -> None:
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440) == Duration.of_seconds(86400)
    assert Duration.of_millis(3) == Duration.of_nanos(3_000_000)
    assert Duration.of_millis(3).to_millis() == 3
    assert Duration.of_nanos(1_999_999).to_millis() == 1
    assert Duration.of_millis(-1).to_millis() == -1
    assert Duration.of_seconds(1) < Duration.of_seconds(2)
    assert len({Duration.of_seconds(60), Duration.of_minutes(1)}) == 1
    assert Duration.of_timedelta(dt.timedelta(milliseconds=5)).to_timedelta() == dt.timedelta(milliseconds=5)
    assert pickle.loads(pickle.dumps(Duration.of_seconds(1))) == Duration.of_seconds(1)
    assert [str(Duration.of_nanos(n)) for n in (0, 5, 10**6, 10**9)] == ["0 ms", "5 ns", "1 ms", "1 s"]
    with pytest.raises(TypeError):
        Duration.of_seconds(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("millis", [0, 1, 999, 1000, 1_700_000_000_123, -1, -999, -1000, -1001])
def test_instants_and_milliseconds(millis: int) -> None:
    instant = Instant.of_epoch_milli(millis)
    assert instant.to_epoch_milli() == millis
    assert 0 <= instant.nanos < 10**9
    assert repr(instant) == f"Instant<{instant.seconds}, {instant.nanos}>"
    assert pickle.loads(pickle.dumps(instant)) == instant


def test_instants() -> None:
    assert Instant(1, 5) < Instant(1, 6) < Instant(2, 0)
    assert hash(Instant(1, 5)) == hash(Instant(1, 5))
    assert Instant.of_datetime(dt.datetime(1969, 12, 31, 23, 59, 59, 500_000, dt.timezone.utc)) == Instant(
        -1, 500_000_000
    )
    zone = dt.timezone(dt.timedelta(hours=2))
    assert Instant.of_datetime(dt.datetime(1970, 1, 1, 2, 0, 1, tzinfo=zone)) == Instant(1, 0)
    with pytest.raises(ValueError, match="nanos"):
        Instant(0, -1)


def test_times() -> None:
    assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86400)
    assert Time.milliseconds(5).to_milliseconds() == Time(milliseconds=5).to_milliseconds() == 5
    assert pickle.loads(pickle.dumps(Time.seconds(1))) == Time.seconds(1) < Time.seconds(2)
    assert hash(Time.seconds(1)) == hash(Time.milliseconds(1000))
    assert str(Time.seconds(1)) == "1000 ms"


@pytest.mark.parametrize("wrong", [1.5, "1 s", True, None])
def test_what_is_no_length_of_time_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        as_millis(wrong)  # type: ignore[arg-type]
