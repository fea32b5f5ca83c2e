"""The portal's pages of accounts and data: tokens, passwords, users, and the files in storages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.e2e.portal.browsing import Visitor, expect
from tests.e2e.portal.walking import broken_commands
from tests.e2e.server import Server, until

pytestmark = pytest.mark.slow
SHARES_SERVER = True
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHWm3eEJr1bG5GLtMmEd6WYqnFyFLYHBQ1vQh7pQ3x9d"


@pytest.fixture(scope="module")
def data(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a storage with a folder, a text and a picture."""
    root = tmp_path_factory.mktemp("data")
    (root / "runs").mkdir()
    (root / "notes.txt").write_text("the learning rate was too high\n")
    (root / "empty").touch()
    (root / "\u202egpj.exe").touch()
    answer = server.http.post("/storages", json={"name": "datasets", "type": "local", "data": {"path": str(root)}})
    assert answer.status_code == 201, answer.text
    assert server.http.put("/storages/datasets/groups/default").is_success
    return root


def test_a_token_is_shown_once_works_and_is_revoked(visitor: Visitor, server: Server) -> None:
    visitor.open("/profile", "admin")
    page = visitor.page
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label("May do").select_option("read")
    page.get_by_role("button", name="Make the token").click()
    token = page.get_by_role("dialog").locator("code").inner_text()
    headers = {"Authorization": f"Bearer {token}"}
    me = f"{server.url}/api/v2/users/me"
    assert httpx.get(me, headers=headers).json()["username"] == "admin"
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="nightly")
    assert "reading only" in row.inner_text()
    assert token not in page.content()
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    row.wait_for(state="detached")
    assert httpx.get(me, headers=headers).status_code == 401


@pytest.mark.full
def test_a_profile_has_keys_notifications_and_the_command_that_uses_them(visitor: Visitor, server: Server) -> None:
    visitor.open("/profile", "admin")
    page = visitor.page
    page.get_by_role("button", name="Add a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Public key").fill("ssh-dss AAAA")
    dialog.get_by_role("button", name="Add the key").click()
    dialog.get_by_role("alert").wait_for()
    assert visitor.examine() == []
    dialog.get_by_label("Public key").fill(f"{KEY} me@laptop\n")
    dialog.get_by_role("button", name="Add the key").click()
    row = page.get_by_role("row").filter(has_text="me@laptop")
    row.wait_for()
    page.get_by_label("A job of mine waits too long").check()
    page.get_by_label("A job of mine fails").check()
    page.get_by_label("Too long is, in minutes").fill("45")
    card = page.locator("section").filter(has=page.get_by_role("heading", name="Notifications"))
    assert broken_commands(page) == []
    assert visitor.examine() == []
    card.get_by_role("button", name="Save").click()
    page.get_by_text("The notifications are saved").wait_for()
    found = server.get("/alerts/subscription")
    assert (found["on"], found["waitingMinutes"]) == (["failure", "waiting"], 45)
    page.get_by_text("Nothing arrives now").wait_for()
    assert server.submit("reached", "sleep 1000").is_success
    until(lambda: server.state("reached") == "RUNNING", "it runs")
    page.goto("/jobs/admin~reached?tab=terminal")
    shown = page.get_by_role("button", name="Copy the SSH command").get_attribute("title") or ""
    assert "admin+reached+worker+0@127.0.0.1" in shown
    server.http.put("/jobs/admin~reached/executionType", json={"value": "STOP"})
    visitor.open("/profile", "admin")
    row.get_by_role("button", name="Remove me@laptop").click()
    dialog.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")
    assert server.get("/users/admin/ssh-keys")["sshKeys"] == []


@pytest.mark.full
def test_an_administrator_adds_and_removes_users(visitor: Visitor, server: Server) -> None:
    visitor.open("/users", "Users")
    page = visitor.page
    page.get_by_role("button", name="New user").click()
    page.get_by_label("Name", exact=True).fill("ann")
    page.get_by_label("Password", exact=True).fill("correct-horse-ann")
    page.get_by_role("button", name="Add the user").click()
    page.get_by_text("ann can log in").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    login = {"username": "ann", "password": "correct-horse-ann"}
    assert httpx.post(f"{server.url}/api/v2/authn/basic/login", json=login).is_success
    page.get_by_role("button", name="ann", exact=True).click()
    assert visitor.examine() == []
    page.get_by_label("E-mail", exact=True).fill("ann@example.org")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("cell", name="ann@example.org").wait_for()
    page.get_by_role("button", name="Remove the user").click()
    page.get_by_role("dialog", name="Remove ann?").get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="ann", exact=True).wait_for(state="detached")
    assert server.http.get("/users/ann").status_code == 404


@pytest.mark.full
def test_users_are_imported_and_each_line_has_its_result(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text('username,password,email,groups\n"cy",correct-horse-cy,,\ndi,x,,\n')
    visitor.open("/users", "Users")
    page = visitor.page
    page.get_by_role("button", name="Import CSV").click()
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_role("button", name="Add 2 users").click()
    page.get_by_role("dialog").get_by_role("cell", name="added").wait_for()
    page.get_by_role("dialog").get_by_role("cell", name="password").wait_for()
    assert server.http.get("/users/cy").json()["username"] == "cy"
    assert server.http.get("/users/di").status_code == 404
    assert server.http.delete("/users/cy").is_success


@pytest.mark.full
def test_files_are_uploaded_seen_downloaded_and_removed(visitor: Visitor, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "a name.txt"
    file.write_text("uploaded\n")
    visitor.open("/storages?storage=datasets", "Storages")
    page = visitor.page
    # A name that turns letters around must not look like that of a picture.
    page.get_by_role("button", name="‹U+202E›gpj.exe", exact=True).wait_for()
    page.get_by_role("link", name="runs/").click()
    page.get_by_text("This folder is empty").wait_for()
    assert visitor.examine() == []
    page.locator("input[type=file]").set_input_files(file)
    row = page.get_by_role("row").filter(has_text="a name.txt")
    row.wait_for()
    assert (data / "runs" / "a name.txt").read_text() == "uploaded\n"
    row.get_by_role("button", name="a name.txt", exact=True).click()
    page.get_by_role("dialog").get_by_text("uploaded").wait_for()
    assert visitor.examine() == []
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    with page.expect_download() as found:
        row.get_by_role("button", name="Download a name.txt").click()
    assert found.value.path().read_text() == "uploaded\n"
    row.get_by_role("button", name="Remove a name.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")
    assert list((data / "runs").iterdir()) == []


@pytest.mark.full
def test_an_administrator_makes_changes_tests_and_removes_a_storage(
    visitor: Visitor, server: Server, tmp_path: Path
) -> None:
    assert server.http.post("/groups", json={"groupname": "readers"}).is_success
    visitor.open("/storages", "Storages")
    page = visitor.page
    page.get_by_role("button", name="New storage").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("shared")
    # Its fields follow its kind, and what the server says of one stands beside it.
    form.get_by_label("Kind").select_option("smb")
    form.get_by_label("Server").fill("not a host")
    form.get_by_role("textbox", name="Share", exact=True).fill("pictures")
    form.get_by_label("Where the nodes have it mounted").fill(str(tmp_path))
    form.get_by_label("Password", exact=True).fill("hush-hush")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Server")).to_have_accessible_description(re.compile("must match"))
    form.get_by_label("Server").fill("nas.example.org")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("a password needs a username")
    form.get_by_label("User name").fill("reader")
    assert broken_commands(page) == []
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Password", exact=True)).to_have_attribute("placeholder", "kept as it is")
    kept = server.get("/storages/shared")
    assert (kept["data"]["username"], kept["hasCredentials"]) == ("reader", True)
    assert "hush-hush" not in page.content() + str(form.locator("input").evaluate_all("all => all.map(x => x.value)"))
    form.get_by_label("Description").fill("pictures with labels")
    form.get_by_label("readers").check()
    form.get_by_role("button", name="Save").click()
    until(lambda: server.get("/storages/shared").get("groups") == ["readers"], "it is granted")
    kept = server.get("/storages/shared")
    assert (kept["description"], kept["hasCredentials"]) == ("pictures with labels", True)
    assert broken_commands(page) == []
    form.get_by_role("button", name="Test the storage").click()
    expect(form.get_by_role("region", name="Test").get_by_role("listitem")).to_have_text(
        [re.compile(step) for step in ("connect", "list", "write", "read", "remove")]
    )
    assert visitor.examine() == []
    form.get_by_role("button", name="Remove the storage").click()
    page.get_by_role("dialog", name="Remove shared?").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("link", name="shared")).to_have_count(0)
    assert server.http.get("/storages/shared").status_code == 404


@pytest.mark.full
def test_the_audit_log_says_who_did_what(visitor: Visitor, server: Server) -> None:
    body = {"username": "eve", "password": "correct-horse-eve"}
    assert server.http.post("/users", json=body).is_success
    assert server.http.delete("/users/eve").is_success
    visitor.open("/audit", "Audit log")
    page = visitor.page
    page.get_by_label("What it was done to").fill("eve")
    page.wait_for_url("**/audit?*target=eve*")
    rows = page.get_by_role("row").filter(has_text="eve")
    rows.filter(has_text="user.remove").wait_for()
    assert rows.count() == 2


@pytest.mark.full
def test_a_user_changes_a_password_and_sees_no_accounts(server: Server, browser: Any, data: Path) -> None:
    body = {"username": "bob", "password": "correct-horse-bob", "grouplist": ["default"]}
    assert server.http.post("/users", json=body).is_success
    visitor = Visitor(browser, server.url)
    visitor.log_in("bob", "correct-horse-bob")
    visitor.open("/profile", "bob")
    page = visitor.page
    assert page.get_by_role("link", name="Users").count() == 0
    page.get_by_label("Present password", exact=True).fill("wrong")
    page.get_by_label("New password", exact=True).fill("correct-horse-new")
    page.get_by_role("button", name="Change the password").click()
    page.get_by_role("alert").wait_for()
    page.get_by_label("Present password", exact=True).fill("correct-horse-bob")
    page.get_by_role("button", name="Change the password").click()
    page.get_by_text("The password is changed").wait_for()
    visitor.open("/storages", "Storages")
    page.get_by_role("button", name="notes.txt", exact=True).click()
    page.get_by_text("the learning rate was too high").wait_for()
    visitor.open("/users", "Users")
    page.get_by_text("You may not see this").wait_for()
    assert visitor.examine() == []
    visitor.close()
    assert visitor.complaints == []
