"""What can be done with a job from its page, and that it is done to the job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.jobs import Served
from tests.browser.visitor import Visitor
from tests.unit.ops.rest.serving import is_running
from tests.waiting import eventually
from tidemill import state_processor


def test_a_savepoint_is_taken_into_a_directory(visitor: Visitor, own: Served, tmp_path: Path) -> None:
    tab = visitor.look(served=own)
    dialog = opened(tab, "Savepoint")
    dialog.get_by_label("Directory").fill(str(tmp_path / "savepoints" / "mine"))
    dialog.get_by_role("button", name="Take savepoint").click()
    location = result(tab, "Savepoint complete")
    assert Path(location).parent == tmp_path / "savepoints" / "mine"
    assert state_processor.read(location).job_id == own.id
    expect(dialog).to_have_count(0)
    own.goes_on()


def test_a_refused_savepoint_is_reported_and_can_be_tried_again(visitor: Visitor, own: Served, tmp_path: Path) -> None:
    visitor.expect_complaint(r"status of 403.*/savepoints")
    tab = visitor.look(served=own)
    dialog = opened(tab, "Savepoint")
    dialog.get_by_label("Directory").fill("/somewhere/else")
    dialog.get_by_role("button", name="Take savepoint").click()
    expect(dialog.get_by_role("alert")).to_contain_text("savepoint")
    dialog.get_by_label("Directory").fill("")
    dialog.get_by_role("button", name="Take savepoint").click()
    assert Path(result(tab, "Savepoint complete")).parent == tmp_path / "savepoints"


@pytest.mark.parametrize("drain", [False, True], ids=["as it is", "drained"])
def test_a_job_is_stopped_with_a_savepoint(visitor: Visitor, own: Served, drain: bool) -> None:
    tab = visitor.look(served=own)
    dialog = opened(tab, "Stop")
    if drain:
        expect(dialog.get_by_text("has nothing left to process")).to_be_hidden()
        dialog.get_by_label("Drain").check()
        expect(dialog.get_by_text("has nothing left to process")).to_be_visible()
    dialog.get_by_role("button", name="Stop with savepoint").click()
    location = result(tab, "Stopped with a savepoint")
    eventually(lambda: not is_running(own.job))
    assert (state_processor.read(location).timers("sales").num_rows == 0) == drain, "windows that are open still"
    expect(tab.get_by_role("main")).to_contain_text("Finished")
    expect(tab.get_by_text("Ended", exact=True)).to_be_visible()
    expect(tab.get_by_role("button", name="Stop", exact=True)).to_be_disabled()
    expect(tab.get_by_text("no actions are available")).to_be_visible()


def test_a_job_is_cancelled_once_the_word_is_typed(visitor: Visitor, own: Served) -> None:
    tab = visitor.look(served=own)
    dialog = opened(tab, "Cancel")
    expect(dialog).to_contain_text("Its checkpoints are kept")
    confirm = dialog.get_by_role("button", name="Cancel the job")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("to confirm").fill("cancel")
    confirm.click()
    expect(tab.get_by_text("The job is cancelled.").first).to_be_visible()
    assert own.rest.read(f"/jobs/{own.id}")["state"] == "CANCELED"
    tab.get_by_role("link", name="Exceptions").click()
    expect(tab.get_by_role("main")).to_contain_text("order 90 has no price")


def test_nothing_happens_to_a_job_when_a_dialog_is_left(visitor: Visitor, own: Served) -> None:
    tab = visitor.look(served=own)
    for name in ("Savepoint", "Rescale", "Stop", "Cancel"):
        for leave in ("Escape", "Back"):
            dialog = opened(tab, name)
            if leave == "Escape":
                tab.keyboard.press("Escape")
            else:
                dialog.get_by_role("button", name="Back").click()
            expect(dialog).to_have_count(0)
            expect(tab.get_by_role("button", name=name, exact=True)).to_be_focused()
    assert own.job.get_checkpoint_history().latest_savepoint is None
    own.goes_on()


def test_a_dialog_does_not_outlive_the_page_it_is_of(visitor: Visitor, own: Served) -> None:
    tab = visitor.look(served=own)
    dialog = opened(tab, "Cancel")
    tab.go_back()
    expect(tab.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    expect(dialog).to_have_count(0)


def test_a_job_is_rescaled_while_it_runs(visitor: Visitor, own: Served) -> None:
    tab = visitor.look(served=own)
    dialog = opened(tab, "Rescale")
    confirm = dialog.get_by_role("button", name="Rescale")
    expect(confirm).to_be_disabled()
    dialog.get_by_label(re.compile("Parallelism of spending")).fill("3")
    confirm.click()
    expect(tab.get_by_text(re.compile("^Rescaled: .*spending.*: 3")).first).to_be_visible()
    vertices = own.rest.read(f"/jobs/{own.id}")["vertices"]
    assert {vertex["uid"]: vertex["parallelism"] for vertex in vertices}["spending"] == 3
    own.goes_on()
    expect(opened(tab, "Rescale").get_by_label(re.compile("Parallelism of spending"))).to_have_value("3")


def opened(tab: Page, name: str) -> Locator:
    """The dialog of an action."""
    tab.get_by_role("button", name=name, exact=True).click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def result(tab: Page, told: str) -> str:
    """The path of the savepoint that is reported with these words."""
    done = tab.get_by_role("list", name="Results of actions").get_by_role("listitem").filter(has_text=told)
    expect(done).to_be_visible()
    return done.locator("code").first.inner_text()
