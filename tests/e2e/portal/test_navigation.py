"""The portal's navigation: groups of pages that can be folded, and that fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.portal.browsing import Visitor, expect
from tests.e2e.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.full]
NAVIGATION = "nav[aria-label=Pages]"
HIDDEN_PX = f"(nav => nav.scrollHeight - nav.clientHeight)(document.querySelector('{NAVIGATION}'))"


@pytest.mark.parametrize("height", [800, 640])
def test_all_pages_of_an_administrator_fit_into_the_window(server: Server, browser: Any, height: int) -> None:
    person = Visitor(browser, server.url, viewport={"width": 1280, "height": height})
    person.log_in()
    person.open("/", "Hello, admin")
    page = person.page
    assert page.evaluate(HIDDEN_PX) <= 0
    administration = page.get_by_role("button", name="Administration")
    expect(administration).to_have_attribute("aria-expanded", "true" if height == 800 else "false")
    expect(page.locator(NAVIGATION).get_by_role("link", name="Users")).to_have_count(1 if height == 800 else 0)
    assert person.examine() == []
    person.close()
    assert person.complaints == []


def test_a_folded_group_stays_folded_and_opens_for_its_own_pages(visitor: Visitor) -> None:
    visitor.open("/", "Hello, admin")
    page = visitor.page
    group = page.get_by_role("button", name="Administration")
    group.focus()
    page.keyboard.press("Enter")
    expect(group).to_have_attribute("aria-expanded", "false")
    page.reload()
    expect(group).to_have_attribute("aria-expanded", "false")
    visitor.open("/users", "Users")
    expect(group).to_have_attribute("aria-expanded", "true")
    expect(page.locator(NAVIGATION).locator("[aria-current=page]")).to_have_text("Users")


def test_the_profile_is_in_the_menu_of_the_user(visitor: Visitor) -> None:
    visitor.open("/", "Hello, admin")
    page = visitor.page
    page.get_by_role("button", name="admin administrator").click()
    # One theme and one language of each holds, which a screen reader says.
    for group, chosen, other in (("Theme", "As the system", "Dark"), ("Language", "English", "简体中文")):
        choices = page.get_by_role("group", name=group).get_by_role("menuitemradio")
        expect(choices.and_(page.locator("[aria-checked=true]"))).to_have_text(chosen)
        expect(choices.filter(has_text=other)).to_have_attribute("aria-checked", "false")
    page.get_by_role("menuitem", name="Profile").click()
    page.get_by_role("heading", name="admin", level=1).wait_for()
