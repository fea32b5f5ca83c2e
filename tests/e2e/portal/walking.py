"""Every page of the portal, as its own list names them, and a platform whose users gave everything a hostile name."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

import typer
from typer.exceptions import TyperException

from openpai.app.main import app
from tests.e2e.portal.browsing import Visitor
from tests.e2e.server import ROOT, Server, until

PASSWORD: Final = "correct-horse-battery"
HOSTILE: Final = "<img src=x onerror=window.harmed=1>\u202edesrever 🦄 " + "w" * 120
_LISTED: Final = re.compile(r'\{ path: "([^"]+)"')
PARTS: Final = {"$job": "admin~hostile", "$item": "hostile", "$page": "wiki"}
"""What stands in the addresses of pages of one thing."""


def addresses() -> list[str]:
    """Return the address of each page, as the portal lists them."""
    found = _LISTED.findall((ROOT / "portal/src/app/pages.tsx").read_text("utf-8"))
    return [re.sub(r"\$\w+", lambda part: PARTS[part.group()], path) for path in found]


def make_hostile(server: Server) -> None:
    """Make a job with a log, an item, a group, a user and a manager, with texts that mean harm."""
    echo = "printf '%s\\n' " + f"'{HOSTILE}'"
    assert server.submit("hostile", echo, "sleep 1000").is_success
    until(lambda: server.state("hostile") == "RUNNING", "it runs")
    assert server.http.put("/jobs/admin~hostile/tag", json={"value": HOSTILE}).is_success
    config = server.http.get("/jobs/admin~hostile/config").text
    # The marketplace refuses marks that change the direction of text.
    title = HOSTILE.replace("\u202e", "")
    item = {"name": "hostile", "kind": "template", "title": title[:100], "description": title, "protocol": config}
    answer = server.http.post("/market/items", json=item)
    assert answer.is_success, answer.text
    acls = {"virtualClusters": ["vision"], "managedVirtualClusters": ["vision"]}
    group = {"groupname": "leads", "description": HOSTILE, "extension": {"acls": acls}}
    assert server.http.post("/groups", json=group).is_success
    for name, groups in (("ula", []), ("mio", ["leads"])):
        body = {"username": name, "password": PASSWORD, "grouplist": groups, "email": f"{name}@example.org"}
        assert server.http.post("/users", json=body).is_success, name


def harm(visitor: Visitor) -> list[str]:
    """Return what the hostile texts have done to this page."""
    page = visitor.page
    found = page.evaluate("[window.harmed ?? 0, document.querySelectorAll('img[src=x], main script').length]")
    wide = visitor.overflow()
    return [*(["a text became part of the page"] if any(found) else []), *([f"{wide} px too wide"] if wide > 0 else [])]


def actions(page: Any) -> set[str]:
    """Return the names of the buttons of a page that change something or lead to a form for it."""
    names = page.locator("main button:visible, main a[class*=Button]:visible").all_inner_texts()
    return {" ".join(name.split()) for name in names if name.strip()}


def broken_commands(page: Any) -> list[str]:
    """Return the commands that the page offers to copy and that the command line does not understand."""
    titles = page.locator("main button[title^='pai '], [role=dialog] button[title^='pai ']")
    return [each for each in titles.evaluate_all("all => all.map((one) => one.title)") if not is_understood(each)]


def is_understood(line: str) -> bool:
    """Return whether the command line accepts a line's commands, options and number of arguments."""
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    context = command.context_class(command, info_name="pai")
    try:
        while hasattr(command, "resolve_command"):
            _, command, words = command.resolve_command(context, words)
        command.make_context(command.name, words).close()
    except TyperException:
        return False
    return True
