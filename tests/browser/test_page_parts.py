"""The parts that views and actions are made of: values as they are shown, operations that are followed, loading."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.browser.visitor import PATIENCE
from tidemill.ops.web.pages import page_files

ORIGIN = "http://page.test"
#: Does something in which no waiting takes time; what came of it, and how long the waits were to be.
HURRIED = """
    window.hurried = async (act) => {
        const [later, waits] = [window.setTimeout, []];
        window.setTimeout = (wake, millis) => {
            waits.push(Math.round(millis));
            return later(wake, 0);
        };
        try {
            return [await act(), waits];
        } finally {
            window.setTimeout = later;
        }
    };
    window.silence = () => Promise.reject(Object.assign(new Error("no answer"), { status: 0 }));
"""


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """A tab with the page's modules at hand, and no driver behind it."""
    files = page_files()

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(ORIGIN)
        file = files.get(path)
        if file is None or path == "/":
            route.fulfill(body="<!doctype html><title>Parts</title><body></body>", content_type="text/html")
        else:
            route.fulfill(body=file.content, content_type=file.media_type)

    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.route("**/*", answer)
    page.add_init_script(HURRIED)
    page.goto(ORIGIN)
    yield page
    page.close()


def test_whole_numbers_of_state_are_not_rounded(tab: Page) -> None:
    text = '{"id": 9007199254740993, "all": [1, -9223372036854775808, 0.5, "x"], "none": null}'
    shown = tab.evaluate(
        """async text => {
            const { exact, json } = await import("/web/widgets/tree.js");
            return json(JSON.parse(text, exact));
        }""",
        text,
    )
    assert shown == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("tide", '"tide"'),
        (True, "true"),
        (None, "null"),
        (["ann", 1], '["ann", 1]'),
        ({"name": "ann"}, '{"name": "ann"}'),
        ({"$bytes": "AAEC"}, '3 bytes, as base64 "AAEC"'),
        ({"$truncated": '["a'}, 'truncated: only the beginning is shown "[\\"a"'),
        ({"$pickle": "gASVAAAA"}, "pickled, 6 bytes: not unpickled, because that could run code"),
        ("<b>bold</b>", '"<b>bold</b>"'),
    ],
    ids=["text", "truth", "nothing", "tuple", "object", "bytes", "cut-off", "pickle", "markup"],
)
def test_a_short_value_stands_in_a_line(tab: Page, value: object, shown: str) -> None:
    found = tab.evaluate(
        """async value => {
            const { tree } = await import("/web/widgets/tree.js");
            const made = tree(value);
            return [made.textContent, made.querySelectorAll("b, details").length];
        }""",
        value,
    )
    assert found == [shown, 0]


def test_a_large_value_is_made_as_far_as_it_is_opened(tab: Page) -> None:
    summary, closed, opened, more = tab.evaluate(
        """async () => {
            const { tree } = await import("/web/widgets/tree.js");
            const made = tree(Array.from({ length: 1000 }, (_, at) => ({ at, text: "x".repeat(100) })));
            document.body.append(made);
            const count = () => made.querySelectorAll(".tree > li").length;
            const found = [made.querySelector("summary").textContent, count()];
            made.open = true;
            await new Promise((done) => made.addEventListener("toggle", done, { once: true }));
            found.push(count());
            made.querySelector(".tree > li:last-child > button").click();
            found.push(count());
            made.remove();
            return found;
        }"""
    )
    assert (summary, closed, opened, more) == ("list of 1,000 items", 0, 51, 101)


def test_an_operation_is_polled_less_and_less_often_until_it_is_over(tab: Page) -> None:
    found, waits = tab.evaluate(
        """async () => {
            const { outcome } = await import("/web/actions/operations.js");
            const running = async () => ({ status: { id: "IN_PROGRESS" } });
            const done = async () => ({ status: { id: "COMPLETED" }, operation: { location: "/savepoints/1" } });
            const answers = [running, silence, silence, running, done];
            return hurried(() => outcome(() => answers.shift()()));
        }"""
    )
    assert found == {"location": "/savepoints/1"}
    assert waits == [250, 400, 640, 1000, 1000]


def test_an_operation_that_fails_does_so_in_the_drivers_words(tab: Page) -> None:
    told, _ = tab.evaluate(
        """async () => {
            const { outcome } = await import("/web/actions/operations.js");
            const failure = { class: "CheckpointError", "stack-trace": "no space left" };
            const failed = async () => ({ status: { id: "COMPLETED" }, operation: { "failure-cause": failure } });
            return hurried(() => outcome(failed).catch((error) => error.message));
        }"""
    )
    assert told == "no space left"


def test_a_driver_that_never_answers_again_is_gone(tab: Page) -> None:
    is_gone, waits = tab.evaluate(
        """async () => {
            const { DriverGone, outcome } = await import("/web/actions/operations.js");
            return hurried(() => outcome(silence).catch((error) => error instanceof DriverGone));
        }"""
    )
    assert is_gone
    assert sum(waits) > 5_000


@pytest.mark.parametrize(("status", "times"), [(0, 3), (503, 3), (403, 1)])
def test_a_request_is_sent_again_only_if_it_may_be_answered_then(tab: Page, status: int, times: int) -> None:
    sent, _ = tab.evaluate(
        """async status => {
            const { insisting } = await import("/web/actions/operations.js");
            let sent = 0;
            const request = async () => {
                sent += 1;
                throw Object.assign(new Error("refused"), { status });
            };
            return hurried(() => insisting(request).catch(() => sent));
        }""",
        status,
    )
    assert sent == times


def test_a_request_while_it_loads_is_one_more_load(tab: Page) -> None:
    """Never two at a time; and what is stopped loads nothing more."""
    loads, most, after = tab.evaluate(
        """async () => {
            const { loader } = await import("/web/core/loader.js");
            let [loads, now, most] = [0, 0, 0];
            const tick = () => new Promise((done) => setTimeout(done, 5));
            const loading = loader(async () => {
                loads += 1;
                now += 1;
                most = Math.max(most, now);
                await tick();
                now -= 1;
            }, 0);
            loading.now();
            for (let at = 0; at < 20; at += 1) loading.ask();
            while (loads < 2 || now) await tick();
            await tick();
            const found = [loads, most];
            loading.stop();
            loading.ask();
            loading.now();
            await tick();
            return [...found, loads];
        }"""
    )
    assert (loads, most, after) == (2, 1, 2)
