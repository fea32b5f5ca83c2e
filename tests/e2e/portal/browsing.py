"""What a test does at the portal: log in, open a page, and have it examined for people who cannot see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pytest

from tests.e2e.server import PASSWORD, ROOT

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright, which drives the browser")
expect = playwright.expect
BUILT: Final = ROOT / "src/openpai/portal"
AXE: Final = ROOT / "portal/node_modules/axe-core/axe.min.js"
WITHIN_MS: Final = 60_000
# On a busy machine a page takes longer than the five seconds that the library waits by itself.
expect.set_options(timeout=WITHIN_MS)
_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
BOTH: Final = ("light", "dark")
VIEWPORT: Final = {"width": 1280, "height": 800}
PROFILES_MAX: Final = 3
NOWHERE: Final = "/no-such-page"
MISSING: Final = re.compile("There is no such page|没有这个页面")
ELSEWHERE: Final = "portal.example"
"""A name of this machine that browsers do not take for it: pages come over plain HTTP as if from another one."""
_HARMLESS: Final = (
    *(f"status of {status}" for status in (400, 401, 403, 404, 409)),
    # Another test started a container, which changes the interfaces of the machine; the portal asks again.
    "ERR_NETWORK_CHANGED",
    # Over plain HTTP from another machine; the header protects where it can.
    "Cross-Origin-Opener-Policy header has been ignored",
)


def settled(page: Any, path: str) -> None:
    """Load a page, and wait until nothing is loaded any more."""
    page.goto(path)
    _await_rest(page)


def walked(page: Any, path: str) -> None:
    """Go to a page within the portal, as a link does, and wait for the same; to load it takes four times as long.

    On the way is a page that is not there, so that nothing of the one before is taken for a part of this one.
    """
    pushed(page, NOWHERE)
    pushed(page, path)
    _await_rest(page)


def pushed(page: Any, path: str) -> None:
    """Go to a page within the portal, and wait until it is that one, which may still wait for the server."""
    page.evaluate("path => history.pushState({}, '', path)", path)
    expect(page.get_by_text(MISSING)).to_have_count(1 if path == NOWHERE else 0, timeout=WITHIN_MS)


def _await_rest(page: Any) -> None:
    page.locator("main h1").first.wait_for()
    expect(page.locator("main [aria-busy=true]")).to_have_count(0, timeout=WITHIN_MS)


class Profiles:
    """The profiles of a browser for one user each, used again once nothing of that user is left.

    The process of a profile has compiled the portal, for which another one would take as long as for all else that it
    does to show a page; it lives as long as a page of this profile is open.
    """

    def __init__(self, browser: Any) -> None:
        self.chromium = browser
        self._free: list[tuple[str, str, Any]] = []

    def take(self, url: str, locale: str) -> Any:
        """Return a profile without cookies and stored values for a portal; one of its pages shows a picture of it."""
        for each in reversed(self._free):
            if each[:2] == (url, locale):
                self._free.remove(each)
                return each[2]
        found = self.chromium.new_context(base_url=url, locale=locale, reduced_motion="reduce", viewport=VIEWPORT)
        found.set_default_timeout(WITHIN_MS)
        found.new_page().goto("/favicon.svg")
        return found

    def give_back(self, url: str, locale: str, profile: Any) -> None:
        """Take a profile back, and forget those that nobody has used for longest."""
        profile.unroute_all(behavior="ignoreErrors")
        picture, *pages = profile.pages
        for page in pages:
            page.close()
        profile.clear_cookies()
        picture.evaluate("localStorage.clear()")
        self._free.append((url, locale, profile))
        while len(self._free) > PROFILES_MAX:
            self._free.pop(0)[2].close()


class Visitor:
    """One user with a window of their own."""

    def __init__(
        self,
        browser: Profiles,
        url: str,
        *,
        locale: str = "en-US",
        viewport: Mapping[str, int] = VIEWPORT,
        themes: tuple[str, ...] = ("light",),
    ) -> None:
        self.themes = themes
        self.context = browser.take(url, locale)
        self._give_back = partial(browser.give_back, url, locale, self.context)
        self.page = self.context.new_page()
        if viewport != VIEWPORT:
            self.page.set_viewport_size(viewport)
        if themes[0] != "light":
            self.page.emulate_media(color_scheme=themes[0])
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in _HARMLESS):
            self.complaints.append(message.text)

    def log_in(self, user: str = "admin", password: str = PASSWORD) -> None:
        """Log in as the portal does, without its page."""
        answer = self.context.request.post("/api/v2/authn/browser/login", data={"username": user, "password": password})
        assert answer.ok, answer.text()
        # As the page of the login would.
        self.context.pages[0].evaluate("key => localStorage['pai-page-key'] = key", answer.json()["pageKey"])

    def open(self, path: str, heading: str) -> None:
        """Open an address, and wait until its page is there."""
        try:
            self.page.goto(path)
        except playwright.Error as error:
            # A browser with a window loads such a page again by itself.
            if "ERR_NETWORK_CHANGED" not in str(error):
                raise
            self.page.goto(path)
        self.page.get_by_role("heading", name=heading, level=1).wait_for()

    def walk(self, path: str, heading: str) -> None:
        """Go to an address within the portal, as a link does, and wait until its page is there.

        To load it takes three times as long.
        """
        walked(self.page, path)
        self.page.get_by_role("heading", name=heading, level=1).wait_for()

    def examine(self) -> list[str]:
        """Return what is wrong with this page for people with disabilities, with the element of each.

        Rules about colours hold in each theme of this visitor.
        """
        self.page.locator("main h1").first.wait_for()
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0, timeout=WITHIN_MS)
        if not self.page.evaluate("'axe' in window"):
            # A script that is evaluated is not subject to the policy, as one that is added to the page would be.
            self.page.evaluate(AXE.read_text())
        first, *others = self.themes
        self._show(first)
        found = self._violations(_RULES)
        for theme in others:
            self._show(theme)
            found += [f"in the {theme} theme: {each}" for each in self._violations(_OF_COLOURS)]
        # It stays in the last one, in which the next page is examined first: to change it draws all of a page again.
        self.themes = self.themes[::-1]
        return found

    def _show(self, theme: str) -> None:
        self.page.emulate_media(color_scheme=theme)
        self.page.locator(f"html[data-mantine-color-scheme={theme}]").wait_for()

    def _violations(self, rules: list[str]) -> list[str]:
        dialog = self.page.locator("[role=dialog][aria-modal=true]").count()
        # A frame is a page of another server.
        options: dict[str, Any] = {"runOnly": rules, "iframes": False, "resultTypes": ["violations"]}
        # It would load all styles again, for rules that `test_nothing_plays_or_depends_on_how_a_screen_is_held` has.
        options["preload"] = False
        if rules is _RULES:
            # An open dialog hides the page behind it, and its own header is no banner of the page.
            options["rules"] = {"landmark-no-duplicate-banner": {"enabled": not dialog}}
        where = "[role=dialog][aria-modal=true]" if dialog else "html"
        # What else it returns describes each element of the page.
        violations = "async ([where, options]) => (await axe.run(where, options)).violations"
        return [
            f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for one in self.page.evaluate(violations, [where, options])
            for node in one["nodes"][:3]
        ]

    def overflow(self) -> int:
        """Return by how many pixels this page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def close(self) -> None:
        """Close the window, and log out."""
        self._give_back()
