"""Some hundred epochs with a user who watches the page: nothing is left behind by an epoch, and watching is cheap.

``python -m bench.soak`` is the same with 50 operators and 10 000 epochs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.soak import Report, Sample, Settings, soak
from tidemill.runtime.driver import job

#: In a few seconds what happens once counts for more: 1 % of a core is the aim for minutes.
MOST_SHARE = 0.05


def test_epochs_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_EPOCHS_KEPT", 40)
    monkeypatch.setattr(job, "_COUNTS_KEPT", 10)
    # Of thirty looks at memory, some catch an epoch in the middle of its work; not five in a row.
    report = soak(Settings(epochs=300, operators=9, pages=2, samples=30), tmp_path)
    assert report.failures(MOST_SHARE) == []
    assert report.samples[-1].epoch >= 300
    # One too many while an epoch is being remembered.
    assert {40} <= {sample.history for sample in report.samples[15:]} <= {40, 41}
    assert [one["epochs"] > 0 < one["events"] for one in report.pages] == [True, True]


def flat(**changes: Any) -> list[Sample]:
    """Samples that say that all is well, but for ``changes`` from sample to sample."""
    good = Sample(
        epoch=100,
        seconds=0.0,
        megabytes=200.0,
        children=0.0,
        blocks=600_000,
        threads=8,
        open_files=20,
        files=50,
        history=9,
        share=0.0,
    )
    values, changes = vars(good), {"epoch": 100, **changes}
    return [Sample(**values | {name: values[name] + step * at for name, step in changes.items()}) for at in range(20)]


def page(epochs: float, silent: float = 1.0) -> dict[str, float]:
    """What a watcher of the page reports."""
    return {"epochs": epochs, "seconds since the last event": silent}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"megabytes": 2.0}, ["the driver grew by"]),
        ({"blocks": 3_000}, ["Python's memory grew by"]),
        ({"threads": 1}, ["threads: 27 in the second half, 17 in the first"]),
        ({"open_files": 1}, ["open files: 39 in the second half, 29 in the first"]),
        ({"files": 30}, ["files: 620 in the second half, 320 in the first"]),
        ({"history": 500}, ["history: 9509 in the second half, 4509 in the first"]),
    ],
    ids=["nothing", "megabytes", "blocks", "threads", "open files", "files", "history"],
)
def test_what_grows_is_reported(changes: dict[str, float], told: list[str]) -> None:
    found = Report(Settings(), flat(**changes), 0.005, [page(epochs=5)]).failures()
    assert len(found) == len(told)
    assert all(text.startswith(start) for text, start in zip(found, told, strict=True))


def test_a_page_that_costs_too_much_or_receives_nothing_is_reported() -> None:
    too_much, unseen = "the page took 1.30% of a core", "an open page received no epochs, or stopped receiving them"
    assert Report(Settings(), flat(), 0.013, [page(epochs=0)]).failures() == [too_much, unseen]
    assert Report(Settings(), flat(), 0.005, [page(epochs=5), page(epochs=5, silent=90)]).failures() == [unseen]
