"""The portal in a real browser, against the real server: the way from the login to a job."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.portal.browsing import BOTH, BUILT, Visitor, expect
from tests.e2e.server import PASSWORD, ROOT, Server

pytestmark = pytest.mark.slow
SHARES_SERVER = True
PAGES = (
    ("/", "Hello, admin"),
    ("/jobs", "Jobs"),
    ("/submit", "Submit a job"),
    ("/cluster", "Cluster"),
    ("/storages", "Storages"),
    ("/users", "Users"),
    ("/audit", "Audit log"),
    ("/profile", "admin"),
)


def test_a_user_logs_in_where_they_wanted_to_go_and_out_again(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url)
    page = visitor.page
    page.goto("/jobs?state=RUNNING")
    assert visitor.examine() == []
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("the user name or the password is wrong").wait_for()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Jobs", level=1).wait_for()
    assert page.url.endswith("/jobs?state=RUNNING")
    kept = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie")
    assert "pai_session" not in kept
    # A server on another port of this host receives the cookie, and nothing else.
    assert [each["name"] for each in visitor.context.cookies(f"{server.url.rpartition(':')[0]}:1/api")] == [
        "pai_session"
    ]
    assert visitor.context.request.get("/api/v2/users/me").status == 401
    page.get_by_role("button", name="administrator").click()
    page.get_by_role("menuitem", name="Log out").click()
    page.get_by_role("heading", name="Log in to OpenPAI").wait_for()
    assert visitor.context.request.get("/api/v2/users/me").status == 401
    visitor.close()
    assert visitor.complaints == []


def test_a_job_is_submitted_watched_and_stopped(visitor: Visitor) -> None:
    visitor.open("/submit", "Submit a job")
    page = visitor.page
    page.get_by_label("Name", exact=True).fill("by-form")
    page.get_by_label("Commands").fill("echo hello from the form\nsleep 1000")
    page.get_by_label("Job file").get_by_text("by-form").wait_for()
    page.get_by_text("The server accepts this file").wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="by-form", level=1).wait_for()
    page.get_by_role("tab", name="Logs").click()
    page.get_by_role("log").get_by_text("hello from the form").wait_for()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("heading", level=1).get_by_text("Stopped").wait_for()


def test_a_fault_is_shown_at_its_line_as_it_is_typed(visitor: Visitor) -> None:
    visitor.open("/submit", "Submit a job")
    visitor.page.get_by_label("Name", exact=True).fill("not a name!")
    visitor.page.get_by_role("alert").get_by_role("listitem").get_by_text("line 2").wait_for()


@pytest.mark.full
def test_small_screens_and_both_themes(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url, viewport={"width": 375, "height": 740}, themes=BOTH)
    visitor.log_in()
    visitor.open(*PAGES[0])
    for path, heading in PAGES:
        visitor.walk(path, heading)
        assert visitor.examine() == [], path
        assert visitor.overflow() <= 0, path
    visitor.close()
    assert visitor.complaints == []


@pytest.mark.full
def test_the_portal_speaks_chinese(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url, locale="zh-CN")
    visitor.log_in()
    visitor.open("/cluster", "集群")
    assert visitor.page.locator("html").get_attribute("lang") == "zh-Hans"
    visitor.close()


def test_the_list_narrows_and_its_address_brings_it_back(visitor: Visitor, server: Server) -> None:
    for name in ("one-of-two", "two-of-two"):
        assert server.submit(name, "sleep 100").status_code == 202
    visitor.open("/jobs", "Jobs")
    page = visitor.page
    page.get_by_label("Search by name, user or virtual cluster").fill("one-of-two")
    page.get_by_text("1 job", exact=True).wait_for()
    page.wait_for_url("**/jobs?*q=one-of-two*")
    page.reload()
    page.get_by_role("link", name="one-of-two").wait_for()
    assert (
        page.get_by_role("link", name="two-of-two").count() == 0 or page.get_by_text("1 job", exact=True).is_visible()
    )


def test_a_login_that_ends_loses_nothing(visitor: Visitor, server: Server) -> None:
    visitor.open("/jobs", "Jobs")
    page = visitor.page
    page.get_by_label("Search by name, user or virtual cluster").fill("typed")
    page.wait_for_url("**/jobs?*q=typed*")
    expect(page.locator("html")).to_have_attribute("data-live", "true")
    visitor.context.clear_cookies()
    # A change is asked for at once, and otherwise only every 15 seconds.
    assert server.submit("typed-meanwhile", "sleep 100").is_success
    page.get_by_role("dialog", name="Your login has ended").wait_for()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.get_by_label("Search by name, user or virtual cluster").input_value() == "typed"


def test_nothing_plays_or_depends_on_how_a_screen_is_held(built: None) -> None:
    """Prove for all pages what two rules of axe would look for in each, for which it loads styles and sounds again."""
    styles = [path.read_text("utf-8") for path in BUILT.rglob("*.css")]
    assert any("@media" in each for each in styles)
    assert [each for each in styles if re.search(r"@media[^{]*orientation", each)] == []
    code = [path.read_text("utf-8") for path in (ROOT / "portal/src").rglob("*.tsx")]
    assert code
    assert [each for each in code if re.search(r"<(audio|video)\b", each)] == []


def test_what_is_wrong_for_people_with_disabilities_is_found_in_each_theme(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url, themes=BOTH)
    visitor.log_in()
    visitor.open("/profile", "admin")
    pale = "Object.assign(document.createElement('p'), {textContent: 'pale', style: 'color: #777; background: #888'})"
    visitor.page.evaluate(f"document.querySelector('main').append(new Image(), {pale})")
    found = [each.partition(":")[0] for each in visitor.examine()]
    visitor.close()
    assert "image-alt" in found
    assert "color-contrast" in found
    assert "in the dark theme" in found
