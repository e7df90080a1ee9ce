"""BATCH mode's sorted input: nothing is lost or doubled, keys come together, each in time order, also from disk."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tidemill.errors import TidemillError
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.exchange.sorted_input import SortedInput

Record = tuple[int, Any, Any, int | None]  # input, key, value, timestamp


def drained(source: SortedInput) -> list[Record]:
    return [
        (number, key, value, None if batch.timestamps is None else batch.timestamps[position])
        for batches in source.key_groups()
        for number, batch in batches
        for position, (key, value) in enumerate(zip(batch.keys or [], batch.values, strict=True))
    ]


def runs_of_keys(records: list[Record]) -> list[Any]:
    keys = [key for _, key, _, _ in records]
    return [key for position, key in enumerate(keys) if position == 0 or keys[position - 1] != key]


records = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.integers(0, 9), st.sampled_from("abc")), st.integers(), st.integers(0, 5))
)


@given(records=records, stamped=st.booleans(), parcel_bytes=st.sampled_from([0, 40, 1000]))
@settings(max_examples=examples(100), deadline=None)
def test_keys_come_together_in_time_order(records: list[Any], stamped: bool, parcel_bytes: int) -> None:
    source = SortedInput(8, 1000, "the test")
    for number, key, value, timestamp in records:
        source.grow(parcel_bytes)
        source.add(Batch([value], [timestamp] if stamped else None, [key]), number)
    found = drained(source)
    source.close()
    expected = [(n, k, v, t if stamped else None) for n, k, v, t in records]
    assert Counter(found) == Counter(expected)
    assert len(runs_of_keys(found)) == len({key for _, key, _, _ in records})
    for key in {key for _, key, _, _ in records}:
        mine = [record for record in expected if record[1] == key]
        # A stable sort: of equal time and input the record that came first comes first.
        assert [r for r in found if r[1] == key] == sorted(mine, key=lambda r: (r[3] or 0, r[0]))


def test_records_without_a_timestamp_come_first() -> None:
    source = SortedInput(1, 1000, "the test")
    source.add(Batch(["late"], [5], ["k"]), 0)
    source.add(Batch(["unstamped"], None, ["k"]), 1)
    assert drained(source) == [(1, "k", "unstamped", MIN_TIME), (0, "k", "late", 5)]


def test_what_exceeds_the_memory_goes_to_disk() -> None:
    source = SortedInput(4, 1000, "the test")
    for number in range(100):
        source.grow(100)
        source.add(Batch([number], None, [number % 7]), 0)
        assert sum(len(part.values) for part in source._held.values()) <= 3
    assert source._file is not None
    assert sorted(value for _, _, value, _ in drained(source)) == list(range(100))
    source.close()
    assert source._file is None


def test_a_full_disk_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    source = SortedInput(4, 10, "operator 'count'")
    source.add(Batch([1], None, ["k"]), 0)
    with pytest.raises(TidemillError, match=r"operator 'count'.*sorted-inputs.*No space left.*TMPDIR"):
        source.grow(100)
