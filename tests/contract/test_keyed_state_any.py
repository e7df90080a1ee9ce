"""Any key and any value goes through any backend, its files, and another parallelism, and is what it was."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.keyed_state import CONFIGURATIONS, KINDS, Backends, Operator, merged
from tests.thorough import examples
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.testing.strategies import keys, values

SETTINGS = settings(max_examples=examples(25), derandomize=True, deadline=None, database=None)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@SETTINGS
@given(st.lists(keys(), max_size=12), st.integers(1, 4), st.integers(1, 4))
def test_any_keys(configuration: str, many: list[Any], before: int, after: int) -> None:
    expected: dict[Any, list[int]] = {}
    for number, key in enumerate(map(canonical_key, many)):
        expected.setdefault(key, []).append(number)
    with Backends(configuration) as backends:
        operator = Operator(backends, before)
        for number, key in enumerate(many):
            operator.at(key).list.add(number)
            operator.at(key, (0, 5)).map.put(key, number)
            operator.owner(key).backend.event_timers.register(number, canonical_key(key))
            if number % 4 == 0:
                operator.commit()
        operator.commit()
        for files in (operator.files, merged(operator.files, keep_deletes=False), operator.exported()):
            again = Operator(backends, after, files)
            assert {key: list(again.at(key).list.get()) for key in again.keys("list")} == expected
            assert set(again.keys("map", (0, 5))) == set(expected)
            for key, numbers in expected.items():
                entries = dict(again.at(key, (0, 5)).map.items())
                if not has_nan(key):
                    assert entries == {key: numbers[-1]}
            timers = sum(len(states.backend.event_timers) for states in again.subtasks)
            assert timers == len(many)
        for key in expected:
            for name in (None, (0, 5)):
                operator.at(key, name).clear()
        operator.commit()
        assert all(operator.keys(kind, name) == [] for kind in KINDS for name in (None, (0, 5)))


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@SETTINGS
@given(st.lists(values(), max_size=6))
def test_any_values(configuration: str, many: list[Any]) -> None:
    with Backends(configuration) as backends:
        operator = Operator(backends)
        present = [value for value in many if value is not None]
        for number, value in enumerate(many):
            operator.at(number).value.update(value)
            operator.at("all").map.put(number, value)
        operator.at("all").list.update(present)
        operator.commit()
        expected = operator.at("all").seen()
        assert expected["list"] == present
        assert expected["map"] == dict(enumerate(many))
        for files in (operator.files, merged(operator.files, keep_deletes=False), operator.exported()):
            again = Operator(backends, 2, files)
            assert again.at("all").seen() == expected
            for number, value in enumerate(many):
                found = again.at(number).value.value()
                assert found == value
                assert type(found) is type(value)


def has_nan(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(map(has_nan, key))
    return isinstance(key, float) and math.isnan(key)
