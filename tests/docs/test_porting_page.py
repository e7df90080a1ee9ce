"""`docs/porting.md` has every public name of PyFlink's DataStream API, and whether it is here."""

from __future__ import annotations

from tests.docs.porting_reference import reference, written


def test_the_tables_are_those_of_this_version() -> None:
    assert written() == reference().strip(), "write them with: python -m tests.docs.porting_reference"


def test_the_tables_are_by_version() -> None:
    text = reference()
    assert "### datastream.connectors.kafka" in text
    assert "| `ExecutionMode` | 1.12-1.20 |" in text
    assert "`set_externalized_checkpoint_cleanup` (1.13-1.20)" in text
    assert "*`add_jars`*, `add_python_archive`, `add_python_file`" in text.replace("*`add_classpaths`*, ", "")
