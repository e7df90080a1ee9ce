"""The list of jobs: all that this driver has started, those that run and those that are over."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.jobs import Served
from tests.browser.visitor import Visitor


def test_a_job_is_listed_with_what_it_does_and_leads_to_its_graph(visitor: Visitor, running: Served) -> None:
    tab = visitor.go()
    row = tab.get_by_role("row", name=re.compile("orders"))
    expect(row).to_contain_text("Running")
    expect(row).to_contain_text(running.id)
    expect(row).to_contain_text(re.compile(r"\d/s"))
    row.get_by_role("link", name="orders").click()
    expect(tab).to_have_url(re.compile(f"#/jobs/{running.id}/graph$"))
    expect(tab.get_by_role("heading", name="orders", level=1)).to_be_visible()
    tab.go_back()
    expect(tab.get_by_role("heading", name="Jobs", level=1)).to_be_visible()


def test_new_epochs_appear_in_the_list_of_an_open_page(visitor: Visitor) -> None:
    tab = visitor.go()
    epoch = tab.get_by_role("row", name=re.compile("orders")).get_by_role("cell").nth(1)
    expect(epoch).to_have_text(re.compile(r"^[\d,]+$"))
    seen = epoch.inner_text()
    expect(epoch).not_to_have_text(seen)


def test_jobs_that_are_over_stay_below_those_that_run(visitor: Visitor, own: Served) -> None:
    tab = visitor.go()
    names = tab.get_by_role("rowheader")
    expect(names).to_contain_text(["own", "orders"])
    own.job.cancel().result(60)
    expect(names).to_contain_text(["orders", "own"])
    expect(tab.get_by_role("row", name=re.compile("own"))).to_contain_text("Canceled")
    expect(tab.get_by_text("1 running, 1 ended")).to_be_visible()


def test_an_unknown_job_is_reported_in_words(visitor: Visitor) -> None:
    visitor.expect_complaint("status of 404")
    tab = visitor.go("#/jobs/0123456789abcdef0123456789abcdef/epochs")
    expect(tab.get_by_role("alert")).to_contain_text("does not know the job 0123456789abcdef0123456789abcdef")
    tab.get_by_role("link", name="Jobs", exact=True).click()
    expect(tab.get_by_role("link", name="orders")).to_be_visible()
