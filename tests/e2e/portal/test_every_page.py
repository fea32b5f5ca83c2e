"""Every page of the portal: for each role, with hostile texts, while it waits, and when the server fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.portal.browsing import NOWHERE, WITHIN_MS, Visitor, expect, pushed, settled, walked
from tests.e2e.portal.walking import PASSWORD, actions, addresses, broken_commands, harm, make_hostile
from tests.e2e.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
COMMAND: Final = "Copy as command"
NO_WORKERS: Final = "delete window.SharedWorker"
FORBIDDEN: Final = ("/users", "/metrics", "/settings")
"""Pages that say to users and managers that they may not see them; the others show them what they may see."""
LOADED_HERE: Final = ("/announcements", "/settings", "/pages/wiki")
"""Pages that no other test loads at their address; to go from page to page takes a third of the time."""
ADMINS: Final = """
/groups           New group
/virtual-clusters New virtual cluster
/exit-specs       New exit spec
/storages         New storage
"""
"""Actions that only administrators are offered."""


@pytest.fixture(scope="module")
def hostile(server: Server) -> Server:
    """Return the platform with names that mean harm."""
    make_hostile(server)
    return server


@pytest.mark.parametrize("user", ["admin", "mio", "ula"])
def test_each_page_works_for_each_role_and_hostile_texts_do_nothing(hostile: Server, browser: Any, user: str) -> None:
    visitor = Visitor(browser, hostile.url)
    visitor.log_in(*((user,) if user == "admin" else (user, PASSWORD)))
    page, wrong, offered = visitor.page, [], set()
    settled(page, "/")
    for path in addresses():
        go = settled if user == "admin" and path in LOADED_HERE else walked
        go(page, path)
        wrong += [f"{path}: {each}" for each in harm(visitor)]
        wrong += [f"{path}: {text}" for text in page.locator("main [role=alert]").all_inner_texts()]
        is_forbidden = page.get_by_text("You may not see this").count() > 0
        if is_forbidden != (path in FORBIDDEN and user != "admin"):
            wrong.append(f"{path}: {'is' if is_forbidden else 'is not'} forbidden")
        if not is_forbidden and COMMAND not in actions(page):
            wrong.append(f"{path}: nothing to copy as a command")
        wrong += [f"{path}: {line} is no command" for line in broken_commands(page)]
        offered |= {f"{path} {name}" for name in actions(page)}
        if user == "admin":
            wrong += [f"{path}: {each}" for each in visitor.examine()]
    for line in ADMINS.strip().splitlines():
        path, _, name = line.partition(" ")
        if (f"{path} {name.strip()}" in offered) != (user == "admin"):
            wrong.append(f"{path}: {name.strip()} is offered to the wrong users")
    visitor.close()
    assert wrong + visitor.complaints == []


class Stopped:
    """Holds the answers of the server until it lets them fail."""

    def __init__(self, page: Any) -> None:
        self.held: list[Any] = []
        self.is_failing = False
        page.route("**/api/v2/**", self._hold)

    def _hold(self, route: Any) -> None:
        if route.request.url.endswith(("/users/me", "/authn/info")):
            route.continue_()
        elif "/changes" in route.request.url:
            route.abort()
        elif self.is_failing:
            self._fail(route)
        else:
            self.held.append(route)

    def _fail(self, route: Any) -> None:
        route.fulfill(status=500, json={"code": "UnknownError", "message": "it broke", "advice": "tell somebody"})

    def fail(self) -> None:
        self.is_failing = True
        while self.held:
            self._fail(self.held.pop())

    def again(self) -> None:
        self.is_failing = False


@pytest.fixture
def lonely(hostile: Server, browser: Any) -> Iterator[Visitor]:
    """Return an administrator whose pages ask by themselves, so that a test can answer them."""
    found = Visitor(browser, hostile.url)
    found.page.add_init_script(NO_WORKERS)
    found.log_in()
    yield found
    found.close()


def test_each_page_says_that_it_waits_and_that_the_server_failed(lonely: Visitor) -> None:
    page, wrong = lonely.page, []
    stopped = Stopped(page)
    page.goto("/")
    page.locator("main h1").first.wait_for()
    for path in addresses():
        # Nothing that failed is kept, so that a page asks for all that it shows, as one that is loaded does.
        stopped.fail()
        pushed(page, NOWHERE)
        stopped.again()
        pushed(page, path.replace("/publish", "/publish?job=admin~hostile"))
        page.locator("main h1").first.wait_for()
        try:
            expect(page.locator("main [aria-busy=true], main [role=status]").first).to_be_visible(timeout=WITHIN_MS / 4)
            stopped.fail()
            expect(page.locator("main").get_by_text("it broke").first).to_be_visible(timeout=WITHIN_MS / 4)
        except AssertionError as error:
            wrong.append(f"{path}: {'no error' if stopped.is_failing else 'does not wait'}: {str(error)[:80]}")
    assert wrong == []


def test_the_keyboard_alone_reaches_each_listed_page(lonely: Visitor) -> None:
    page = lonely.page
    settled(page, "/")
    links = page.locator("nav[aria-label=Pages]").first.get_by_role("link")
    for name in [name.strip() for name in links.all_inner_texts()]:
        page.keyboard.press("Control+k")
        field = page.get_by_role("combobox", name="Find a job or a page")
        expect(field).to_be_focused()
        page.keyboard.type(name)
        expect(page.get_by_role("listbox", name="Results").get_by_role("option").first).to_have_text(name)
        page.keyboard.press("Enter")
        expect(links.and_(page.locator("[aria-current=page]"))).to_have_text(name, timeout=WITHIN_MS)
        page.locator("main h1").first.wait_for()
    settled(page, "/submit")
    page.get_by_label("Job file").click()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Find a job or a page")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox", name="Find a job or a page")).to_have_count(0)


def test_a_page_loads_itself_again_after_an_upgrade_removed_its_files(lonely: Visitor) -> None:
    page = lonely.page
    loaded: list[str] = []

    def removed_before(route: Any) -> None:
        route.continue_() if loaded else route.fulfill(status=404)

    settled(page, "/")
    page.on("request", lambda request: loaded.append(request.url) if request.resource_type == "document" else None)
    page.route("**/assets/UsersPage-*.js", removed_before)
    page.get_by_role("link", name="Users").first.click()
    page.get_by_role("heading", name="Users", level=1).wait_for()
    assert loaded


def test_a_part_that_an_upgrade_removed_leaves_what_was_typed(lonely: Visitor) -> None:
    page = lonely.page
    page.route("**/assets/Editor-*.js", lambda route: route.fulfill(status=404))
    page.goto("/submit")
    page.get_by_label("Name", exact=True).fill("typed-here")
    page.get_by_text("This part of the page could not be loaded").wait_for()
    assert page.get_by_label("Name", exact=True).input_value() == "typed-here"
    page.unroute("**/assets/Editor-*.js")
    page.get_by_role("button", name="Reload the page").click()
    page.get_by_label("Job file").get_by_text("typed-here").wait_for()
    assert page.get_by_label("Name", exact=True).input_value() == "typed-here"
