"""Every `>>>` example in a docstring of the package is run, and none is passed over.

Examples are counted in the source first: one that doctest does not reach, or that says `+SKIP`, shows in the count.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def examples_written(source: str) -> int:
    """Count the examples in all docstrings of a module, without importing it."""
    if ">>>" not in source:
        return 0
    parser = doctest.DocTestParser()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, documented))
    docstrings = (ast.get_docstring(node) or "" for node in nodes)
    return sum(len(parser.get_examples(docstring)) for docstring in docstrings if ">>>" in docstring)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


WRITTEN = {
    module_name(path): count
    for path in sorted((SOURCE / "tidemill").rglob("*.py"))
    if (count := examples_written(path.read_text(encoding="utf-8")))
}


@pytest.fixture(scope="module", autouse=True)
def stop_spark_if_an_example_started_it() -> Iterator[None]:
    """Examples may start a session of their own, as a user's program would. One that was there before stays."""

    def active_context() -> object:
        pyspark = sys.modules.get("pyspark")
        return pyspark.SparkContext._active_spark_context if pyspark else None

    before = active_context()
    yield
    if before is None and active_context() is not None:
        from pyspark.sql import SparkSession

        SparkSession.builder.getOrCreate().stop()


@pytest.mark.parametrize("name", WRITTEN)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for test in doctest.DocTestFinder().find(module, name):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
    assert runner.tries == WRITTEN[name], (
        f"{name}: {WRITTEN[name]} examples are written, {runner.tries} were run; "
        "one is skipped, or stands where doctest does not look (a nested function, a wrapped attribute)"
    )


def test_examples_are_counted_in_the_source() -> None:
    source = '''
"""Module.

>>> 1 + 1
2
"""
class Thing:
    def method(self):
        """Two more.

        >>> x = 1
        >>> x
        1
        """
        return ">>> not an example"
'''
    assert examples_written(source) == 3
