"""What a process manager learns from the exit code of a program."""

from __future__ import annotations

import pytest

from tidemill.common import ExitCode, exit_code_of, run_main
from tidemill.errors import (
    CheckpointError,
    ConfigurationError,
    CorruptFileError,
    FencedError,
    GraphError,
    JobCancelledError,
    NoSavepointError,
    UserCodeError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ExitCode.FINISHED),
        (JobCancelledError("x"), ExitCode.FINISHED),
        (UserCodeError("x"), ExitCode.FAILED),
        (CheckpointError("the store is down"), ExitCode.FAILED),
        (OSError("x"), ExitCode.FAILED),
        (FencedError("x"), ExitCode.FENCED),
        (ConfigurationError("x"), ExitCode.UNFIT),
        (GraphError("x"), ExitCode.UNFIT),
        (NoSavepointError("x"), ExitCode.UNFIT),
        (CorruptFileError("x"), ExitCode.UNFIT),
    ],
)
def test_each_end_has_its_code(error: Exception | None, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_a_program_reports_what_it_raised(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise FencedError("taken over by lineage 7")

    assert run_main(main) == 3
    assert "FencedError: taken over by lineage 7" in capsys.readouterr().err
    assert run_main(lambda: None) == 0


def test_who_interrupts_a_program_means_it() -> None:
    def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_main(main)
