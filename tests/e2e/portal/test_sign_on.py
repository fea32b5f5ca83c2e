"""Logging in with an organisation's own page, in a real browser against a real OpenID provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.portal.browsing import WITHIN_MS, Visitor, expect
from tests.e2e.server import PASSWORD, Server
from tests.integration.sign_on import real_provider

pytestmark = pytest.mark.slow
IDENTITY = """
requireGroup: true
oidc:
  issuer: {issuer}
  clientId: openpai
  clientSecret: of-this-test
  label: Example University
  groupsClaim: groups
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with real_provider() as found:
        for name, groups in (("carol", ["lab"]), ("dave", ["elsewhere"])):
            claims = {"preferred_username": name, "email": f"{name}@example.org", "groups": groups}
            assert httpx.put(f"{found}/users/{name}", json=claims, trust_env=False).is_success
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: str, built: None) -> Iterator[Server]:
    """Return a platform whose users come from the provider, if they are in the group of the lab."""
    root = tmp_path_factory.mktemp("sign-on")
    found = Server.start(root, 0, "--backend", "simulated", "--identity", _identity(root, issuer))
    group = {"groupname": "lab", "description": "", "externalName": "lab", "extension": {}}
    assert found.http.post("/groups", json=group).is_success
    yield found
    found.end()


def _identity(root: Path, issuer: str) -> str:
    """Write a file of a provider that only its owner reads, as the server wants it; return its path."""
    path = root / "identity.yaml"
    path.touch(mode=0o600)
    path.write_text(IDENTITY.format(issuer=issuer))
    return str(path)


def _sign_on(page: Any, name: str) -> None:
    page.get_by_placeholder("sub").fill(name)
    page.get_by_role("button", name="Authorize").click()


def test_a_user_signs_on_types_past_the_end_of_the_login_and_logs_out(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url)
    page = visitor.page
    addresses: list[str] = []
    page.on("framenavigated", lambda frame: addresses.append(frame.url))
    page.goto("/jobs?state=RUNNING")
    page.get_by_role("button", name="Continue with Example University").click()
    _sign_on(page, "carol")
    page.get_by_role("heading", name="Jobs", level=1).wait_for()
    assert page.url.endswith("/jobs?state=RUNNING")
    key = page.evaluate("localStorage['pai-page-key']")
    assert key
    assert not [one for one in addresses if key in one or "token" in one.lower()]
    page.goto("/submit")
    page.get_by_label("Name", exact=True).fill("typed-for-long")
    page.get_by_label("Job file").get_by_text("typed-for-long").wait_for()
    visitor.context.clear_cookies(name="pai_session")
    page.get_by_label("Commands").fill("echo also typed")
    dialog = page.get_by_role("dialog", name="Your login has ended")
    dialog.wait_for()
    assert visitor.examine() == []
    with visitor.context.expect_page() as opened:
        dialog.get_by_role("button", name="Continue with Example University").click()
    _sign_on(opened.value, "carol")
    dialog.wait_for(state="detached")
    assert page.get_by_label("Name", exact=True).input_value() == "typed-for-long"
    assert page.get_by_label("Commands").input_value() == "echo also typed"
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_role("heading", name="typed-for-long", level=1).wait_for()
    page.get_by_role("button", name="carol").click()
    page.get_by_role("menuitem", name="Log out").click()
    page.get_by_role("heading", name="Log in to OpenPAI").wait_for()
    assert page.evaluate("localStorage['pai-page-key']") is None
    visitor.close()


@pytest.mark.full
@pytest.mark.parametrize(
    ("button", "message", "heading"),
    # This provider says of a refusal not which login it was.
    [("Authorize", "group", "Cluster"), ("Deny", "not begun in this browser", "Hello, carol")],
)
def test_who_is_refused_reads_why_and_can_try_again(
    server: Server, browser: Any, button: str, message: str, heading: str
) -> None:
    visitor = Visitor(browser, server.url)
    page = visitor.page
    page.goto("/cluster")
    page.get_by_role("button", name="Continue with Example University").click()
    if button == "Deny":
        page.get_by_role("button", name="Deny").click()
    else:
        _sign_on(page, "dave")
    expect(page.get_by_role("alert")).to_contain_text(message, timeout=WITHIN_MS)
    assert visitor.context.request.get("/api/v2/users/me").status == 401
    assert visitor.examine() == []
    page.get_by_role("button", name="Continue with Example University").click()
    _sign_on(page, "carol")
    page.get_by_role("heading", name=heading, level=1).wait_for()
    visitor.close()


@pytest.mark.full
def test_a_provider_that_does_not_answer_is_named_and_local_accounts_still_log_in(
    browser: Any, tmp_path: Any, built: None
) -> None:
    own = Server.start(tmp_path, 0, "--backend", "simulated", "--identity", _identity(tmp_path, "http://127.0.0.1:9"))
    visitor = Visitor(browser, own.url)
    try:
        visitor.page.goto("/")
        visitor.page.get_by_role("button", name="Continue with Example University").click()
        expect(visitor.page.get_by_role("alert")).to_contain_text(
            "http://127.0.0.1:9 does not answer", timeout=WITHIN_MS
        )
        visitor.page.get_by_label("User name").fill("admin")
        visitor.page.get_by_label("Password", exact=True).fill(PASSWORD)
        visitor.page.get_by_role("button", name="Log in", exact=True).click()
        visitor.page.get_by_role("heading", name="Hello, admin").wait_for()
    finally:
        visitor.close()
        own.end()
