"""Samples of keys: few enough not to be noticed, good enough to name the hot ones."""

from __future__ import annotations

import datetime as dt
import enum
import json
import random
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tidemill.runtime.observe.hot_keys import JobHotKeys
from tidemill.runtime.observe.key_sampler import KeySample, KeySampler
from tidemill.state.keys.stable_hash import stable_hash


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def sampler(clock: Clock | None = None, seed: int = 1) -> KeySampler:
    return KeySampler(clock or Clock(), seed)


def told(of: KeySampler) -> tuple[KeySample, dict[Any, float]]:
    """The report, and the share of each key in it."""
    report = of.report(last=True)
    assert report is not None
    return report, {json.loads(text): weight / report.records for text, weight in report.keys}


def skewed(length: int, seed: int) -> list[str]:
    """Half of the records are of one key, a tenth of another, the rest of as many keys as there are records."""
    dice = random.Random(seed)
    return [
        "half" if at < 0.5 else "tenth" if at < 0.6 else f"k{n}"
        for n, at in enumerate(dice.random() for _ in range(length))
    ]


def test_of_a_small_epoch_every_record_counts() -> None:
    one = sampler()
    one.take(["a", "b", "a", "a", "b"])
    report, shares = told(one)
    assert (report.records, report.sampled) == (5, 5)
    assert shares == {"a": 0.6, "b": 0.4}


@pytest.mark.parametrize("size", [1, 7, 100, 4096], ids=lambda size: f"batches-of-{size}")
def test_shares_are_estimated_whatever_the_batches_are(size: int) -> None:
    one, keys = sampler(), skewed(400_000, 5)
    one.begin_epoch()
    for start in range(0, len(keys), size):
        one.take(keys[start : start + size])
    report, shares = told(one)
    assert report.records == pytest.approx(400_000, abs=2_100), "a sample stands for the records since the last one"
    assert 300 < report.sampled < 600
    assert list(shares) == ["half", "tenth"]
    assert shares == {"half": pytest.approx(0.5, abs=0.07), "tenth": pytest.approx(0.1, abs=0.05)}


def test_short_epochs_are_known_as_well_as_long_ones() -> None:
    one, dice = sampler(), random.Random(1)
    for _ in range(100):
        one.begin_epoch()
        one.take(dice.choices(["hot", "mild"], [3, 1], k=30))
    report, shares = told(one)
    assert report.sampled > 800
    assert report.records == pytest.approx(3_000, abs=10)
    assert shares["hot"] == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize("keys", [64, 100, 1000, 1024])
def test_keys_that_come_in_turn_are_all_alike(keys: int) -> None:
    one = sampler()
    one.take(list(range(keys)) * (1_000_000 // keys))
    _, shares = told(one)
    assert max(shares.values(), default=0) < 1 / keys + 0.02


def test_what_was_hot_fades() -> None:
    clock = Clock()
    one = sampler(clock)
    one.take(["yesterday"] * 1_000)
    clock.now += 300
    one.begin_epoch()
    one.take(["today"] * 1_000)
    report, shares = told(one)
    assert report.records == pytest.approx(1_000, abs=520)
    assert shares["today"] > 0.99


def test_it_reports_at_once_then_now_and_then_and_at_the_end() -> None:
    clock = Clock()
    one = sampler(clock)
    one.take(["a", "a"])
    assert one.report() is not None
    clock.now += 1
    assert one.report() is None
    assert one.report(last=True) is not None
    clock.now += 2.5
    assert one.report() is not None


def test_a_subtask_without_records_reports_it() -> None:
    assert sampler().report() == KeySample(0, 0, ())


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class User:
    name: str
    age: int


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (17, 17),
        ("tea", "tea"),
        ('quo"te\ud800', 'quo"te\\ud800'),
        (True, True),
        (None, None),
        (1.5, 1.5),
        (("a", 1, ("b", None)), ["a", 1, ["b", None]]),
        (b"\x00\xff", {"$bytes": "AP8="}),
        (Decimal("1.20"), "1.20"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "RED"),
        (User("ann", 3), {"name": "ann", "age": 3}),
        (10**5000, "int"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_keys_are_reported_as_json(key: Any, shown: Any) -> None:
    stable_hash(key)
    one = sampler()
    one.take([key, key])
    report = one.report()
    assert report is not None
    assert [json.loads(text) for text, _ in report.keys] == [shown]


def test_long_keys_that_begin_alike_stay_apart() -> None:
    one = sampler()
    one.take(["x" * 1000 + "1", "x" * 1000 + "2"] * 4)
    report = one.report()
    assert report is not None
    told = [json.loads(text)["$truncated"] for text, _ in report.keys]
    assert [text[:256] for text in told] == ['"' + "x" * 255] * 2
    assert len(set(told)) == 2
    assert max(map(len, told)) < 300
    hottest = JobHotKeys(["pages"])
    hottest.take("pages", 0, report)
    assert hottest.hottest_share("pages") == 0.5


def test_the_programs_own_dice_are_left_alone() -> None:
    random.seed(3)
    expected = random.random()
    random.seed(3)
    one = KeySampler()
    one.take(list(range(10_000)))
    assert random.random() == expected
