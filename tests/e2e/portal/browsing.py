"""What a test does at the portal: log in, open a page, and have it examined for people who cannot see it."""

from __future__ import annotations

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
ELSEWHERE: Final = "portal.example"
"""A name of this machine that browsers do not take for it: pages come over plain HTTP as if from another one."""
_HARMLESS: Final = (
    *(f"status of {status}" for status in (400, 401, 403, 404, 409)),
    # Another test started a container, which changes the interfaces of the machine; the portal asks again.
    "ERR_NETWORK_CHANGED",
    # Over plain HTTP from another machine; the header protects where it can.
    "Cross-Origin-Opener-Policy header has been ignored",
)


class Visitor:
    """One user with a window of their own."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        options.setdefault("reduced_motion", "reduce")
        self.themes = options.pop("themes", ("light",))
        self.context = browser.new_context(base_url=url, locale=options.pop("locale", "en-US"), **options)
        self.context.set_default_timeout(WITHIN_MS)
        self.page = self.context.new_page()
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
        # As the page of the login would; it may have another key by the time that it opens the next page.
        self.context.add_init_script(f"localStorage['pai-page-key'] ??= {answer.json()['pageKey']!r}")

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
        found = self._violations(_RULES)
        for theme in others:
            self._show(theme)
            found += [f"in the {theme} theme: {each}" for each in self._violations(_OF_COLOURS)]
        if others:
            self._show(first)
        return found

    def _show(self, theme: str) -> None:
        self.page.emulate_media(color_scheme=theme)
        self.page.locator(f"html[data-mantine-color-scheme={theme}]").wait_for()

    def _violations(self, rules: list[str]) -> list[str]:
        dialog = self.page.locator("[role=dialog][aria-modal=true]").count()
        # A frame is a page of another server.
        options: dict[str, Any] = {"runOnly": rules, "iframes": False, "resultTypes": ["violations"]}
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
        """Close the window."""
        self.context.close()
