"""Each view of a job that runs: what it shows is what the server says, and it continues while the page is open.

The job's graph has tests of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.jobs import BAD_ORDER, CUSTOMERS, FAIL, Served
from tests.browser.visitor import Visitor
from tidemill.runtime.observe.driver_log import LOG_VARIABLE


def test_the_frame_shows_what_the_job_does_and_continues(visitor: Visitor, running: Served) -> None:
    tab = visitor.look()
    expect(tab.get_by_role("heading", level=1)).to_have_text("orders")
    expect(tab.get_by_role("main")).to_contain_text("Running")
    expect(tab.get_by_text("Live", exact=True)).to_be_visible()
    epoch = fact(tab, "Epoch")
    expect(epoch).to_have_text(re.compile(r"^[\d,]+$"))
    seen = epoch.inner_text()
    expect(epoch).not_to_have_text(seen)
    expect(fact(tab, "Restarts")).to_have_text("1")
    expect(fact(tab, "Running for")).to_have_text(re.compile(r"^\d+ (s|min)"))
    assert running.id in tab.get_by_role("navigation", name="Path").inner_text()


def test_every_view_is_a_link_with_an_address_of_its_own(visitor: Visitor, running: Served) -> None:
    tab = visitor.look()
    tabs = tab.get_by_role("navigation", name="Views of the job").get_by_role("link")
    expect(tabs).to_have_text(
        ["Graph", "Epochs", "Checkpoints", "State", "Metrics", "Exceptions", "Configuration", "Logs"]
    )
    visitor.expect_complaint(r"status of 404.*/logs")  # this driver writes no log
    for link in tabs.all():
        link.click()
        expect(link).to_have_attribute("aria-current", "page")
        expect(tab).to_have_title(re.compile(f"^orders · {link.inner_text()} "))
        expect(tab).to_have_url(f"{running.server.url}/{link.get_attribute('href')}")
    expect(tab.get_by_text("has no log file")).to_be_visible()


def test_epochs_show_where_their_time_goes(visitor: Visitor) -> None:
    tab = visitor.look("epochs")
    phases = tab.get_by_role("figure", name="Time by phase")
    for phase in ("Source", "Compute", "Exchange", "Delta", "Commit"):
        expect(phases).to_contain_text(re.compile(rf"{phase} [\d.]+ [mµ]?s"))
    expect(tab.get_by_role("figure", name="Records per second")).to_contain_text(
        re.compile(r"Records in [\d.]+( k)?/s")
    )
    expect(tab.get_by_role("definition").filter(has_text="100 each")).to_be_visible()
    newest = tab.get_by_role("region", name="The last 50 epochs").get_by_role("rowheader").first
    seen = newest.inner_text()
    expect(newest).not_to_have_text(seen)


def test_a_checkpoint_shows_what_each_subtask_wrote(visitor: Visitor, running: Served) -> None:
    tab = visitor.look("checkpoints")
    tab.get_by_role("button", name=re.compile("what each subtask wrote")).first.click()
    panel = tab.get_by_role("region", name="One checkpoint")
    expect(panel.get_by_role("heading")).to_be_focused()
    vertex = panel.get_by_role("button", name=re.compile("^spending"))
    vertex.click()
    expect(vertex).to_have_attribute("aria-expanded", "true")
    subtasks = panel.get_by_role("table", name="What each subtask wrote")
    expect(subtasks.get_by_role("rowheader")).to_have_text(["1", "2"])
    expect(subtasks.get_by_role("row").nth(1)).to_contain_text("spending spent: ")
    expect(subtasks.get_by_role("row").nth(1)).to_contain_text(re.compile(r"[\d.]+ (KiB|B).*[\d.]+ [mµ]?s"))
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def test_metrics_are_picked_and_stay_in_the_address(visitor: Visitor, running: Served) -> None:
    tab = visitor.look("metrics")
    main = tab.get_by_role("main")
    expect(main).to_contain_text("Add charts")
    main.get_by_label("Of", exact=True).select_option(label="spending → Map")
    expect(main.get_by_label("Metric", exact=True).locator("option[value='numRecordsIn']")).to_have_count(1)
    main.get_by_label("Metric", exact=True).select_option("numRecordsIn")
    main.get_by_label("Value", exact=True).select_option("max")
    main.get_by_role("button", name="Add chart").click()
    picked = main.get_by_role("region", name=re.compile("^spending.*numRecordsIn, highest"))
    expect(picked.get_by_role("figure")).to_contain_text(re.compile(r"numRecordsIn, highest of all subtasks [\d.]+"))
    main.get_by_label("Of", exact=True).select_option(label="The job")
    main.get_by_label("Metric", exact=True).select_option("currentEpoch")
    main.get_by_role("button", name="Add chart").click()
    epoch = main.get_by_role("region", name="The job: currentEpoch")
    expect(epoch).to_contain_text(re.compile(r"currentEpoch [\d.]+"))
    seen = epoch.inner_text()
    expect(epoch).not_to_have_text(seen)  # it continues
    address = tab.url
    assert address.count("chart=") == 2
    other = visitor.tab(address.partition("/#")[2].join(["#", ""]))
    expect(other.get_by_role("region", name="The job: currentEpoch")).to_contain_text(re.compile(r"currentEpoch \d"))
    other.close()
    epoch.get_by_role("button", name=re.compile("Remove")).click()
    expect(epoch).to_have_count(0)
    assert tab.url.count("chart=") == 1


def test_a_chart_is_read_by_arrow_keys(visitor: Visitor, own: Served) -> None:
    tab = visitor.look("epochs", own)  # which has not forgotten its first epochs
    chart = tab.get_by_role("group", name="Time by phase")
    figure = tab.get_by_role("figure", name="Time by phase")
    expect(figure).to_contain_text("(last)")
    chart.focus()
    chart.press("Home")
    expect(figure).to_contain_text("Epoch 1")
    expect(figure).not_to_contain_text("(last)")
    chart.press("ArrowRight")
    expect(figure).to_contain_text("Epoch 2")


def test_checkpoints_have_sizes_durations_and_settings(visitor: Visitor, running: Served) -> None:
    location = running.job.trigger_savepoint().result(60)
    tab = visitor.look("checkpoints")
    expect(tab.get_by_role("figure", name="Size")).to_contain_text(re.compile(r"Written by each [\d.]+ (KiB|B)"))
    expect(tab.get_by_role("figure", name="Duration")).to_contain_text(re.compile(r"[\d.]+ [mµ]?s"))
    history = tab.get_by_role("region", name="Last checkpoints")
    saved = history.get_by_role("row", name=re.compile("Savepoint"))
    expect(saved).to_contain_text("completed")
    expect(saved).to_contain_text(location)
    latest = tab.get_by_role("region", name="Latest")
    expect(latest).to_contain_text(location)
    expect(tab.get_by_role("region", name="Settings")).to_contain_text("exactly once")
    completed = tab.get_by_role("definition").filter(has_text=re.compile(r"^[\d,]+$")).first
    seen = completed.inner_text()
    expect(completed).not_to_have_text(seen)


def test_state_is_listed_looked_up_and_paged(visitor: Visitor, running: Served) -> None:
    tab = visitor.look("state")
    spending = tab.get_by_role("region", name="State of spending")
    spent = spending.get_by_role("row", name=re.compile("spent"))
    expect(spent).to_contain_text(str(CUSTOMERS))
    spent.get_by_role("button", name="Entries of spent").click()
    entries = tab.get_by_role("region", name="Entries of spent", exact=True).first
    expect(entries.get_by_role("rowheader")).to_have_count(50)
    entries.get_by_role("button", name="Next page").click()
    expect(entries.get_by_role("rowheader")).to_have_count(CUSTOMERS - 50)
    expect(entries).to_contain_text(f"Entries 51 to {CUSTOMERS}, the last ones,")
    search = tab.get_by_role("search", name="Look up a key of spent")
    search.get_by_label("Look up a key").fill("customer-3")
    search.get_by_role("button", name="Look up").click()
    expect(entries.get_by_role("rowheader")).to_have_text(['"customer-3"'])
    (entry,) = running.rest.read(f"/jobs/{running.id}/state/spending/spent?key=customer-3")["entries"]
    assert isinstance(entry["value"], int)
    search.get_by_label("Look up a key").fill("nobody")
    search.get_by_role("button", name="Look up").click()
    expect(entries.get_by_role("rowheader")).to_have_count(0)
    spent.get_by_role("button", name="Entries of spent").click()
    expect(search).to_have_count(0)


def test_the_hottest_keys_are_shown_and_lead_to_their_state(visitor: Visitor) -> None:
    tab = visitor.look("state")
    sales = tab.get_by_role("region", name="State of sales per window")
    hottest = sales.get_by_role("button", name=re.compile(r"^Look up key tea, about [12]\d % of the records"))
    expect(hottest).to_be_visible()
    hottest.click()
    keys = tab.get_by_role("search").locator("xpath=..").get_by_role("rowheader")
    expect(keys.first).to_have_text('"tea"')
    expect(keys.filter(has_not_text="tea")).to_have_count(0)


def test_exceptions_have_the_users_traceback_and_the_record(visitor: Visitor) -> None:
    tab = visitor.look("exceptions")
    failure = tab.get_by_role("listitem").filter(has_text="ValueError")
    expect(failure).to_contain_text(f"order {BAD_ORDER} has no price")
    expect(failure).to_contain_text("parse")
    expect(failure.get_by_role("region", name="Traceback of ValueError")).to_contain_text(
        re.compile(r'jobs\.py", line \d+, in __call__')
    )
    expect(failure.get_by_role("definition").filter(has_text=re.compile(f"^{BAD_ORDER}$"))).to_be_visible()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    failure.get_by_role("button", name="Copy the traceback").click()
    expect(failure.get_by_text("Copied")).to_be_visible()
    assert f"ValueError: order {BAD_ORDER} has no price" in tab.evaluate("navigator.clipboard.readText()")


def test_a_failure_appears_on_an_open_page(visitor: Visitor, own: Served, tmp_path: Path) -> None:
    tab = visitor.look("exceptions", own)
    names = tab.get_by_role("listitem").locator("summary")
    expect(names).to_contain_text(["ValueError"])
    (tmp_path / FAIL).touch()
    expect(names).to_contain_text(["RuntimeError", "ValueError"])
    expect(tab.get_by_role("region", name="Traceback of RuntimeError")).to_be_visible()
    expect(fact(tab, "Restarts")).to_have_text("2")
    expect(tab.get_by_text("2 failures")).to_be_visible()


def test_the_configuration_is_searched(visitor: Visitor) -> None:
    tab = visitor.look("config")
    settings = tab.get_by_role("region", name="Settings").first
    expect(settings).to_contain_text("execution.target")
    tab.get_by_label("Search").fill("savepoint dir")
    expect(settings.get_by_role("rowheader")).to_have_text(["execution.checkpointing.savepoint-dir"])
    tab.get_by_label("Search").fill("no such setting")
    expect(tab.get_by_text("No setting contains all of these words")).to_be_visible()


def test_a_driver_without_a_log_says_how_to_have_one(visitor: Visitor) -> None:
    visitor.expect_complaint(r"status of 404.*/logs")
    expect(visitor.look("logs").get_by_role("main")).to_contain_text("tidemill run -d")


def test_a_log_is_shown_searched_and_followed(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "driver.log"
    log.write_text("the job begins\nWARNING something is odd\n")
    monkeypatch.setenv(LOG_VARIABLE, str(log))
    tab = visitor.look("logs")
    lines = tab.get_by_role("region", name="Log of the driver").get_by_role("listitem")
    expect(lines).to_have_text(["the job begins", "WARNING something is odd"])
    tab.get_by_label("Follow").check()
    with log.open("a") as file:
        file.write("one more line\n")
    expect(lines).to_have_count(3)
    tab.get_by_label("Search").fill("odd")
    expect(lines).to_have_text(["WARNING something is odd"])
    expect(tab.get_by_role("main")).to_contain_text(str(log))


def fact(tab: Page, name: str) -> Locator:
    """What the frame says of the job under this name."""
    term = tab.get_by_role("term").filter(has_text=re.compile(f"^{name}$"))
    return tab.locator("dl.job-facts div").filter(has=term).get_by_role("definition")
