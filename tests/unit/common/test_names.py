"""The examples in docstrings run. `tests/docs/test_pyflink_names.py` compares the names with PyFlink's."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tidemill.common
import tidemill.config

MODULES = [
    module.name
    for package in (tidemill.common, tidemill.config)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
