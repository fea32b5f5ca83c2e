"""Several tabs of one browser, whose logins end and begin together."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.e2e.portal.browsing import Visitor
from tests.e2e.server import PASSWORD, Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
SHARES_SERVER = True
NEW: Final = "correct-horse-new"
DIALOG: Final = "Your login has ended"


def _log_in(page: Any, user: str, password: str) -> None:
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("question", ["users/me", "storages"])
def test_a_page_that_asked_with_the_login_before_a_new_password_goes_on(
    server: Server, browser: Any, question: str
) -> None:
    name = f"changing-{question.replace('/', '-')}"
    body = {"username": name, "password": PASSWORD, "grouplist": ["default"]}
    assert server.http.post("/users", json=body).is_success
    visitor = Visitor(browser, server.url)
    visitor.log_in(name)
    visitor.open("/profile", name)
    other = visitor.context.new_page()
    held: list[Any] = []
    other.route(f"**/api/v2/{question}", lambda route: route.continue_() if held else held.append(route))
    with other.expect_request(f"**/api/v2/{question}"):
        other.goto("/storages")
    page = visitor.page
    page.get_by_label("Present password", exact=True).fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill(NEW)
    page.get_by_role("button", name="Change the password").click()
    page.get_by_text("The password is changed").wait_for()
    with other.expect_response(lambda answer: answer.url.endswith(question) and answer.status == 200):
        held[0].continue_()
    other.get_by_role("heading", name="Storages", level=1).wait_for()
    assert other.get_by_role("dialog", name=DIALOG).count() == 0
    visitor.close()
    assert visitor.complaints == []


def test_a_login_in_one_tab_is_one_in_all(server: Server, browser: Any) -> None:
    visitor = Visitor(browser, server.url)
    other = visitor.context.new_page()
    for page in (visitor.page, other):
        page.goto("/storages")
        page.get_by_role("heading", name="Log in to OpenPAI").wait_for()
    _log_in(visitor.page, "admin", PASSWORD)
    for page in (visitor.page, other):
        page.get_by_role("heading", name="Storages", level=1).wait_for()
    visitor.close()
    assert visitor.complaints == []
