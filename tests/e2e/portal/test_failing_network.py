"""The portal over a network that fails for a moment: its pages come nevertheless, and nobody has to load them again.

Browsers end what they are loading when the computer joins another network, or when an interface comes or goes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.e2e.portal.browsing import Visitor, expect
from tests.e2e.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
SHARES_SERVER = True


def fail_at_first(visitor: Visitor, times: int) -> Counter[str]:
    """End the first requests for each file of the portal, and return how often each was asked for."""
    asked: Counter[str] = Counter()

    def answer(route: Any) -> None:
        asked[route.request.url] += 1
        if asked[route.request.url] > times:
            route.continue_()
        else:
            route.abort("connectionreset")

    visitor.context.route("**/assets/**", answer)
    return asked


@pytest.fixture
def person(server: Server, browser: Any) -> Any:
    """Return a user whose browser may complain of files that did not arrive."""
    found = Visitor(browser, server.url)
    found.log_in()
    yield found
    found.close()


# The second request for a file is the program's, after one that the page made early.
@pytest.mark.parametrize("times", [1, 2])
def test_a_page_comes_though_each_of_its_files_fails_at_first(person: Visitor, times: int) -> None:
    asked = fail_at_first(person, times)
    person.open("/submit", "Submit a job")
    person.page.locator(".cm-content").wait_for()
    kinds = {url.rpartition(".")[2] for url, count in asked.items() if count > times}
    assert kinds == {"js", "css"}
    assert person.page.evaluate("getComputedStyle(document.querySelector('main')).display") != "inline"
    person.open("/storages", "Storages")


def test_a_page_behind_a_link_comes_without_loading_all_again(person: Visitor) -> None:
    person.open("/", "Hello, admin")
    person.page.evaluate("window.isSame = true")
    asked = fail_at_first(person, 1)
    person.page.get_by_role("link", name="Storages").click()
    person.page.get_by_role("heading", name="Storages", level=1).wait_for()
    assert asked
    expect(person.page.locator("main [aria-busy=true]")).to_have_count(0)
    assert person.page.evaluate("window.isSame")


def test_a_page_stays_when_a_script_of_others_fails(person: Visitor) -> None:
    person.page.clock.install()
    person.open("/", "Hello, admin")
    asked: list[str] = []
    person.page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    person.page.evaluate(
        """new Promise((failed) => {
            const script = document.createElement("script");
            script.onerror = failed;
            script.src = "https://extension.invalid/script.js";
            document.head.append(script);
        })"""
    )
    with person.page.expect_request("**/last.js"):
        # What the page asks for after the script failed comes before this.
        person.page.evaluate("setTimeout(() => fetch('/last.js'), 1500)")
        person.page.clock.run_for(2_000)
    assert "script.js" in asked
    assert "first.js" not in asked
