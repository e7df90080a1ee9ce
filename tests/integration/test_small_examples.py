"""The small examples, run in this process."""

from __future__ import annotations

from examples import state_machine, word_count


def test_word_count() -> None:
    counts = word_count.main(["--target", "local"])
    assert (counts["to"], counts["the"], counts["question"]) == (4, 3, 1)


def test_state_machine() -> None:
    assert state_machine.main(["--target", "local"]) == [
        "A: shipped",
        "B: late, still created",
        "C: late, still paid",
        "wrong step, B: shipped after created",
    ]
