"""Plug-in pages: pages of other servers in frames of their own origin, which learn nothing of the login here."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.e2e.portal.browsing import BOTH, Visitor, expect
from tests.e2e.server import Server

pytestmark = pytest.mark.slow
TRIES = """<!doctype html><html lang="en"><title>Wiki</title><body><h1>Wiki of the team</h1><p id="found"></p><script>
const tried = (what) => { try { return String(what()); } catch (error) { return error.name; } };
document.getElementById("found").textContent = JSON.stringify({
  address: location.pathname + location.search,
  page: tried(() => parent.document.title),
  key: tried(() => parent.localStorage.length),
  elsewhere: tried(() => { parent.location = "https://elsewhere.example.org/"; return "went"; }),
  referrer: document.referrer,
});
</script></body></html>"""


class Wiki(BaseHTTPRequestHandler):
    """A page of another server, which tries what it may not, and one that goes to another address."""

    def do_GET(self) -> None:
        """Answer a request of a frame."""
        is_leaving = self.path == "/leaves"
        self.send_response(302 if is_leaving else 200)
        self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/") if is_leaving else None
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if not is_leaving:
            self.wfile.write(TRIES.encode())

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


@pytest.fixture(scope="module")
def wiki() -> Iterator[str]:
    """Return the origin of another server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Wiki) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, built: None, wiki: str) -> Iterator[Server]:
    """Return a platform with plug-in pages."""
    pages = f"Wiki={wiki}/team?u={{user}}&t={{theme}}&l={{language}}, 文档={wiki}/leaves"
    found = Server.start(tmp_path_factory.mktemp("pages"), 0, "--backend", "simulated", "--plugin-pages", pages)
    yield found
    found.end()


def test_a_page_of_another_server_is_shown_and_reaches_nothing_here(server: Server, wiki: str, browser: Any) -> None:
    visitor = Visitor(browser, server.url, themes=BOTH)
    visitor.log_in()
    visitor.open("/", "Hello, admin")
    page = visitor.page
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Wiki").click()
    page.get_by_role("heading", name="Wiki", level=1).wait_for()
    found = page.frame_locator("iframe[title=Wiki]").locator("#found")
    for tried in ('"page":"SecurityError"', '"key":"SecurityError"', '"elsewhere":"SecurityError"', '"referrer":""'):
        expect(found).to_contain_text(tried)
    expect(found).to_contain_text('"/team?u=admin&t=light&l=en"')
    assert page.url == f"{server.url}/pages/wiki"
    link = page.get_by_role("link", name="Open in a new tab")
    expect(link).to_have_attribute("href", f"{wiki}/team?u=admin&t=light&l=en")
    assert visitor.examine() == []
    page.set_viewport_size({"width": 375, "height": 700})
    assert visitor.overflow() == 0
    visitor.close()
    # The browser says that it kept the frame from leaving.
    assert [one for one in visitor.complaints if "navigate" not in one and "sandbox" not in one] == []


def test_only_the_chosen_origins_are_framed_and_a_page_that_leaves_them_says_so(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url)
    visitor.log_in()
    visitor.open("/", "Hello, admin")
    page = visitor.page
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find a job or a page").fill("文")
    expect(page.get_by_role("option", name="文档")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="文档", level=1).wait_for()
    expect(page.get_by_role("alert")).to_contain_text("This page went to another address")
    expect(page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")).to_have_text("文档")
    page.goto("/pages/none")
    expect(page.get_by_text("There is no such plug-in page")).to_be_visible()
    visitor.close()
    # The browser says that it refused the frame, in which the script of the login finds no storage.
    assert [one for one in visitor.complaints if "frame-src" not in one and "localStorage" not in one] == []
