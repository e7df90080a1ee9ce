"""Fixtures of the contract suites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.keyed_state import TELLING, Backends


@pytest.fixture(params=TELLING)
def new_backend(request: pytest.FixtureRequest) -> Iterator[Backends]:
    """Makes backends of one configuration; a test that asks for it runs once for each that tells something."""
    with Backends(request.param) as backends:
        yield backends
