"""The examples of sources and sinks of one's own print what is written here."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"

EXPECTED = {
    "custom_source": "cellar: 7\nkitchen: 17\nroof: 27\n",
    "custom_write_ahead_log_sink": "100 orders, 50500 in all\n",
    "custom_idempotent_sink": "4 the\n2 a\n2 sea\n1 bird\n1 boat\n1 sand\n1 sky\n",
    "custom_two_phase_sink": "1 4 9 16 25 36 49 64 81 100\n",
}


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("custom_*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_without_spark(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--target", "local"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == EXPECTED[name]
