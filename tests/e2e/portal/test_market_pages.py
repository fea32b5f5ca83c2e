"""The marketplace in the portal: found, read without harm, published, run, edited and approved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.portal.browsing import BOTH, Visitor, expect
from tests.e2e.server import Server, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
PASSWORD: Final = "correct-horse-battery"
FILE: Final = """\
protocolVersion: 2
name: tuned
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: python}
parameters: {lr: 0.1}
secrets: {token: "******"}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ["echo <% $secrets.token %> lr is <% $parameters.lr %>"]
"""
HARMFUL: Final = """\
# Tuning

Text <script>window.harmed = 1</script> <img src="https://tracker.example/a.png" onerror="window.harmed = 2">
![a picture](https://tracker.example/pixel.png) [a link](javascript:alert(1)) [docs](https://docs.example.org)

| a | b |
|---|---|
| 1 | 2 |

```
python train.py
```
"""


@pytest.fixture(scope="module")
def items(server: Server) -> Server:
    """Return the platform with items and a user."""
    made = (
        {"name": "tuned", "kind": "template", "title": "Tuning", "protocol": FILE, "description": HARMFUL},
        {"name": "imagenet", "kind": "dataset", "title": "ImageNet", "storage": "data", "categories": ["pictures"]},
    )
    for body in made:
        assert server.http.post("/market/items", json=body).is_success, body
    assert server.http.post("/users", json={"username": "ula", "password": PASSWORD, "grouplist": []}).is_success
    return server


@pytest.fixture
def ula(items: Server, browser: Any) -> Iterator[Visitor]:
    """Return a user who is no administrator."""
    found = Visitor(browser, items.url)
    found.log_in("ula", PASSWORD)
    yield found
    found.close()
    assert found.complaints == []


def test_items_are_found_by_words_kinds_and_categories(visitor: Visitor, items: Server) -> None:
    visitor.open("/market", "Marketplace")
    page = visitor.page
    page.get_by_role("link", name="Tuning").wait_for()
    assert visitor.examine() == []
    page.get_by_label("Search items").fill("tuning")
    page.get_by_role("link", name="ImageNet").wait_for(state="detached")
    assert "q=tuning" in page.url
    page.get_by_role("button", name="Data set").click()
    page.get_by_text("No items fit").wait_for()
    assert visitor.examine() == []
    page.get_by_label("Search items").fill("")
    page.get_by_role("button", name="pictures").click()
    page.get_by_role("link", name="ImageNet").click()
    page.get_by_text("/mnt/data").wait_for()
    assert visitor.examine() == []
    star = page.get_by_role("button", name="Star")
    star.click()
    page.get_by_role("button", name="Star · 1", pressed=True).click()
    page.get_by_role("button", name="Star · 0", pressed=False).wait_for()


def test_a_description_runs_nothing_and_loads_nothing(ula: Visitor) -> None:
    asked: list[str] = []
    ula.page.on("request", lambda request: asked.append(request.url))
    ula.open("/market/tuned", "Tuning")
    page = ula.page
    page.get_by_role("link", name="a picture").wait_for()
    expect(page.get_by_role("link", name="docs")).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert page.get_by_text("a link").get_attribute("href") in ("", None)
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img").count() == 0
    assert [url for url in asked if "example" in url] == []
    assert ula.examine() == []
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)


def test_an_item_is_run_with_parameters_and_a_secret_of_ones_own(ula: Visitor, items: Server) -> None:
    ula.open("/market/tuned", "Tuning")
    page = ula.page
    page.get_by_label("lr", exact=True).fill("7")
    page.get_by_label("token", exact=False).first.fill("ulas-own-secret")
    page.get_by_label("Name of the job").fill("from-item")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("heading", name="from-item", level=1).wait_for()
    config = items.http.get("/jobs/ula~from-item/config").text
    assert "lr: 7" in config
    assert "ulas-own-secret" not in config
    until(lambda: items.get("/market/items/tuned")["uses"] == 1, "it is as the page says")


def test_a_file_with_a_secret_is_refused_at_its_line_and_published_without_it(visitor: Visitor, items: Server) -> None:
    page = visitor.page
    visitor.open("/submit", "Submit a job")
    page.get_by_label("Name", exact=True).fill("handed")
    page.get_by_label("Job file").get_by_text("handed").wait_for()
    page.get_by_role("link", name="Save as template").click()
    page.get_by_role("heading", name="Publish an item", level=1).wait_for()
    editor = page.get_by_label("Job file").last
    editor.get_by_text("handed").wait_for()
    assert visitor.examine() == []
    page.get_by_label("Name", exact=False).first.fill("handed")
    page.get_by_label("Title").fill("Handed over")
    editor.press("Control+End")
    editor.press_sequentially("secrets: {token: my-own-secret}")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("alert").get_by_text("secrets.token").wait_for()
    assert items.http.get("/market/items/handed").status_code == 404
    assert visitor.examine() == []
    editor.press("Control+End")
    for _ in "secrets: {token: my-own-secret}":
        editor.press("Backspace")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("heading", name="Handed over", level=1).wait_for()
    assert "my-own-secret" not in items.http.get("/market/items/handed").text


def test_an_edit_that_is_too_late_says_so_and_loses_nothing(visitor: Visitor, items: Server) -> None:
    visitor.open("/market/imagenet?edit=1", "Edit ImageNet")
    page = visitor.page
    page.get_by_label("Summary").fill("mine")
    assert items.http.put("/market/items/imagenet", json={"title": "ImageNet", "storage": "data"}).is_success
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("alert").get_by_text("is not the newest one").wait_for()
    expect(page.get_by_label("Summary")).to_have_value("mine")
    assert visitor.examine() == []
    page.get_by_role("button", name="Save mine over it all the same").click()
    page.get_by_role("heading", name="ImageNet", level=1).get_by_text("ImageNet", exact=True).wait_for()
    until(lambda: items.get("/market/items/imagenet")["summary"] == "mine", "it is as the page says")


def test_what_a_revision_changed_is_shown_line_by_line(visitor: Visitor, items: Server) -> None:
    body = {"name": "weights", "kind": "model", "title": "Weights", "storage": "data", "description": "one"}
    assert items.http.post("/market/items", json=body).is_success
    changed = {"title": "Weights", "storage": "data", "description": "two"}
    assert items.http.put("/market/items/weights", json=changed).is_success
    visitor.open("/market/weights", "Weights")
    page = visitor.page
    page.get_by_role("button", name="What changed in revision 2").click()
    differences = page.get_by_role("region", name="Differences")
    differences.get_by_text("revision 2: two").wait_for()
    differences.get_by_text("revision 1: one").wait_for()
    assert "changes=2" in page.url
    assert visitor.examine() == []


def test_an_administrator_approves_what_a_user_publishes(visitor: Visitor, ula: Visitor, items: Server) -> None:
    visitor.open("/market", "Marketplace")
    visitor.page.get_by_role("switch", name="Items need approval").click()
    until(lambda: items.get("/market/settings")["approval"], "it is as the page says")
    page = ula.page
    ula.open("/publish?fork=tuned", "Publish an item")
    page.get_by_label("Name", exact=False).first.fill("ulas")
    page.get_by_label("Title").fill("Ulas tuning")
    page.get_by_label("Who sees it").select_option("public")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("heading", name="Ulas tuning", level=1).wait_for()
    page.get_by_text("Waits for approval").wait_for()
    visitor.page.get_by_role("button", name="Waiting for approval").click()
    visitor.page.get_by_role("link", name="Ulas tuning").click()
    visitor.page.get_by_role("button", name="Approve").wait_for()
    assert visitor.examine() == []
    visitor.page.get_by_role("button", name="Approve").click()
    visitor.page.get_by_role("button", name="Approve").wait_for(state="detached")
    assert items.get("/market/items/ulas")["status"] == "approved"
    visitor.page.get_by_role("button", name="Remove", exact=True).click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    visitor.page.get_by_role("heading", name="Marketplace", level=1).wait_for()
    assert items.http.put("/market/settings", json={"approval": False}).is_success


def test_small_screens_and_both_themes(items: Server, browser: Any) -> None:
    visitor = Visitor(browser, items.url, viewport={"width": 375, "height": 740}, themes=BOTH)
    visitor.log_in()
    pages = (
        ("/market", "Marketplace"),
        ("/market/tuned", "Tuning"),
        ("/market/tuned?edit=1", "Edit Tuning"),
        ("/publish", "Publish an item"),
    )
    visitor.open(*pages[0])
    for path, heading in pages:
        visitor.walk(path, heading)
        assert visitor.examine() == [], path
        assert visitor.overflow() <= 0, path
    visitor.walk("/market/none", "none")
    visitor.page.get_by_text("Not found").wait_for()
    visitor.close()
    assert visitor.complaints == []


def test_the_marketplace_speaks_chinese(items: Server, browser: Any) -> None:
    visitor = Visitor(browser, items.url, locale="zh-CN")
    visitor.log_in()
    visitor.open("/market", "市场")
    visitor.page.get_by_text("官方").first.wait_for()
    visitor.close()
    assert visitor.complaints == []
