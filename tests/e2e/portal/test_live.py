"""The portal's pages follow what happens: one connection for all tabs, and without one they ask by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.portal.browsing import Visitor, expect
from tests.e2e.server import PASSWORD, Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
# More than a browser keeps connections to one server, six: a stream for each tab would leave some without an answer.
TABS = 8
# A page that follows the changes asks by itself only this often.
FALLBACK_S = 15
NO_WORKERS = "delete window.SharedWorker"


def test_many_tabs_follow_a_job_over_one_connection(visitor: Visitor, server: Server) -> None:
    server.submit("watched", "sleep 1000")
    until(lambda: server.state("watched") == "RUNNING", "it runs")
    asked: list[str] = []
    pages = [visitor.page, *(visitor.context.new_page() for _ in range(TABS - 1))]
    for page in pages:
        page.on("request", lambda request: asked.append(request.url))
        page.goto("/jobs/admin~watched")
        expect(page.locator("h1")).to_contain_text("Running")
    expect(visitor.page.locator("html")).to_have_attribute("data-live", "true")
    for page in pages:
        expect(page.locator("html")).to_have_attribute("data-live", "true")
    asked.clear()
    assert server.http.put("/jobs/admin~watched/executionType", json={"value": "STOP"}).is_success
    for page in pages:
        # Less than the time after which a page asks by itself.
        expect(page.locator("h1")).to_contain_text("Stopped", timeout=(FALLBACK_S - 3) * 1000)
    # A worker's requests are not the pages': none of them has a stream of its own, or asked for the job by itself.
    assert not [url for url in asked if "/changes" in url or "/jobs/" in url]


def test_a_hidden_tab_asks_once_somebody_looks_at_it(visitor: Visitor, server: Server) -> None:
    server.submit("unseen", "sleep 1000")
    until(lambda: server.state("unseen") == "RUNNING", "it runs")
    hidden, page = visitor.context.new_page(), visitor.page
    # Chromium without a window shows every tab.
    hidden.add_init_script("Object.defineProperty(document, 'visibilityState', {get: () => window.seen ?? 'hidden'})")
    for one in (hidden, page):
        one.goto("/jobs/admin~unseen")
        expect(one.locator("html")).to_have_attribute("data-live", "true")
        expect(one.locator("h1")).to_contain_text("Running")
    assert server.http.put("/jobs/admin~unseen/executionType", json={"value": "STOP"}).is_success
    expect(page.locator("h1")).to_contain_text("Stopped")
    # A visible page heard of it and has asked since then; the hidden one heard at the same moment.
    expect(hidden.locator("h1")).to_contain_text("Running")
    hidden.evaluate("window.seen = 'visible'; document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))")
    expect(hidden.locator("h1")).to_contain_text("Stopped", timeout=(FALLBACK_S - 3) * 1000)


def test_a_page_continues_after_a_restart_and_keeps_what_was_typed(server: Server, browser: Any, tmp_path: Any) -> None:
    own = Server.start(tmp_path, 0, "--backend", "simulated")
    visitor = Visitor(browser, own.url)
    visitor.log_in()
    try:
        visitor.open("/submit", "Submit a job")
        visitor.page.get_by_label("Name", exact=True).fill("typed-before")
        other = visitor.context.new_page()
        other.goto("/jobs")
        other.get_by_role("heading", name="Jobs", level=1).wait_for()
        expect(other.locator("html")).to_have_attribute("data-live", "true")
        own.end()
        expect(other.locator("html")).to_have_attribute("data-live", "false", timeout=30_000)
        other.get_by_text("The server does not answer").wait_for()
        own = own.again()
        expect(other.locator("html")).to_have_attribute("data-live", "true", timeout=30_000)
        own.submit("afterwards", "sleep 1000")
        other.get_by_role("link", name="afterwards").wait_for(timeout=(FALLBACK_S - 3) * 1000)
        assert visitor.page.get_by_label("Name", exact=True).input_value() == "typed-before"
    finally:
        visitor.close()
        own.end()


def test_without_shared_workers_a_visible_page_follows_by_itself(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url)
    visitor.page.add_init_script(NO_WORKERS)
    visitor.log_in()
    visitor.open("/jobs", "Jobs")
    expect(visitor.page.locator("html")).to_have_attribute("data-live", "true")
    server.submit("alone", "sleep 1000")
    visitor.page.get_by_role("link", name="alone").wait_for(timeout=(FALLBACK_S - 3) * 1000)
    visitor.close()
    assert visitor.complaints == []


def test_without_a_stream_pages_ask_every_few_seconds(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url)
    visitor.page.add_init_script(NO_WORKERS)
    visitor.page.route("**/api/v2/changes*", lambda route: route.abort())
    visitor.log_in()
    visitor.open("/jobs", "Jobs")
    server.submit("asked-for", "sleep 1000")
    visitor.page.get_by_role("link", name="asked-for").wait_for(timeout=(FALLBACK_S - 3) * 1000)
    expect(visitor.page.locator("html")).to_have_attribute("data-live", "false")
    visitor.close()


def test_the_stream_ends_with_the_login_and_begins_with_the_next(visitor: Visitor, server: Server) -> None:
    visitor.open("/jobs", "Jobs")
    page = visitor.page
    expect(page.locator("html")).to_have_attribute("data-live", "true")
    page.get_by_role("button", name="administrator").click()
    page.get_by_role("menuitem", name="Log out").click()
    page.get_by_role("heading", name="Log in to OpenPAI").wait_for()
    assert page.evaluate("localStorage['pai-page-key']") is None
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("html")).to_have_attribute("data-live", "true")
