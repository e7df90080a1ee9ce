"""Examples as scripts on Spark, in the shared session: they print what they print without it."""

from __future__ import annotations

import runpy
import sys

import pytest

from tests.docs.test_examples import NEEDS_NO_SPARK, NEEDS_SPARK, ROOT, expected

#: Of examples/state those that show something Spark could get wrong; the others differ in the function only.
STATE = ["state/operator_list_state", "state/keyed_broadcast_state", "state/live_rescale"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", [*NEEDS_SPARK, *(name for name in NEEDS_NO_SPARK if "/" not in name), *STATE])
def test_on_spark(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == expected(name)
