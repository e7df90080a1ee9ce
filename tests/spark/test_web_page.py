"""The web page of a job on Spark, in a browser that is killed in the end: the job continues."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import expect

from tests.browser.jobs import fast, served
from tests.browser.visitor import PATIENCE, Visitor
from tests.chromium import chromium
from tests.thorough import WHEN_THOROUGH
from tests.unit.ops.rest.serving import start_sums

pytestmark = pytest.mark.usefixtures("spark")


@WHEN_THOROUGH  # otherwise pages of jobs without Spark, and a job on Spark over REST: tests/browser, test_rest
def test_a_job_on_spark_is_watched_and_saved_and_outlives_the_browser(tmp_path: Path) -> None:
    expect.set_options(timeout=PATIENCE)
    settings = fast(tmp_path) | {"execution.target": "spark"}
    with served(lambda: start_sums(settings), epochs=2) as found, chromium() as browser:
        visitor = Visitor(browser, found)
        tab = visitor.look()
        sums = tab.get_by_role("button").filter(has_text="Reduce")
        expect(sums).to_contain_text(re.compile(r"[1-9][\d.]*( k)?/s in"))
        tab.get_by_role("link", name="Epochs").click()
        expect(tab.get_by_role("figure", name="Time by phase")).to_contain_text(re.compile(r"Commit [\d.]+ [mµ]?s"))
        tab.get_by_role("button", name="Savepoint", exact=True).click()
        tab.get_by_role("button", name="Take savepoint").click()
        expect(tab.get_by_role("list", name="Results of actions")).to_contain_text("Savepoint complete")
        visitor.check()
        kill_chromium()
        found.goes_on()
        assert found.job.get_checkpoint_history().latest_savepoint is not None


def kill_chromium() -> None:
    """All of its processes at once, as a machine that goes down does."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # they go with each other
            if "chrom" in process.name():
                process.kill()
