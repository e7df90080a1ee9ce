"""Fixtures of the contract suites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.keyed_state import CONFIGURATIONS, Backends


@pytest.fixture(params=CONFIGURATIONS)
def new_backend(request: pytest.FixtureRequest) -> Iterator[Backends]:
    """Makes backends of one configuration; a test that asks for it runs once for each configuration."""
    with Backends(request.param) as backends:
        yield backends
