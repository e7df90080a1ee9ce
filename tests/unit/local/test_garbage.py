"""How often Python's garbage collector runs while jobs run in this process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tidemill.local.garbage import rarely_collecting


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_setting_is_restored_when_the_last_job_ends() -> None:
    gc.set_threshold(700, 10, 10)
    with rarely_collecting():
        with rarely_collecting():
            assert gc.get_threshold()[0] == 100_000
        assert gc.get_threshold()[0] == 100_000
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("thresholds", [(0, 10, 10), (500_000, 5, 5)])
def test_a_setting_of_the_program_is_kept(thresholds: tuple[int, int, int]) -> None:
    gc.set_threshold(*thresholds)
    with rarely_collecting():
        assert gc.get_threshold() == thresholds
    assert gc.get_threshold() == thresholds
