"""Examples of files and of Spark's own sources and sinks, in the shared session."""

from __future__ import annotations

import pytest

from examples.connectors import files_rolling, spark_sql

pytestmark = pytest.mark.usefixtures("spark")


def test_sql_before_and_after() -> None:
    assert spark_sql.main() == ([("Ada", 2, 42), ("Bob", 2, 25)], 4)


@pytest.mark.parametrize("target", ["local", "spark"])
def test_few_files_for_many_epochs(target: str) -> None:
    assert files_rolling.main(["--target", target]) == {"status=200": (1, 900), "status=404": (1, 100)}
