"""`pai market`: job templates, data sets and models that users publish for each other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import output, prompts, session
from openpai.cli.formatting import clock_time, plural
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.wording import harmless

if TYPE_CHECKING:
    from openpai.client.calls.market import MarketFilters
    from openpai.client.model import MarketDetail, MarketItem

COMMANDS: Final = {
    "list": ("openpai.cli.market:list_", "List the items that you may see."),
    "show": ("openpai.cli.market:show", "Show an item: what it is, its parameters and its description."),
    "run": ("openpai.cli.market_run:run", "Submit a job from an item, with your own parameters."),
    "publish": ("openpai.cli.market_edit:publish", "Publish a job file, a data set or a model."),
    "edit": ("openpai.cli.market_edit:edit", "Change an item."),
    "fork": ("openpai.cli.market_edit:fork", "Copy an item into one of your own."),
    "history": ("openpai.cli.market_edit:history", "Show the revisions of an item."),
    "remove": ("openpai.cli.market:remove", "Remove an item for good."),
    "rate": ("openpai.cli.market:rate", "Give an item your star, or take it back."),
    "approve": ("openpai.cli.market_review:approve", "Approve an item, or its newest revision."),
    "reject": ("openpai.cli.market_review:reject", "Reject an item, or its newest revision."),
    "settings": ("openpai.cli.market_review:settings", "Show or change whether items need approval."),
    "import": ("openpai.cli.market_files:import_", "Publish what files of items hold, OpenPAI's included."),
    "export": ("openpai.cli.market_files:export", "Print items as a file that `import` reads."),
}
app = group("The marketplace: templates, data sets and models of all users.", COMMANDS)
ORDERS: Final = ("stars", "uses", "newest", "name")
KINDS: Final = ("template", "dataset", "model")
Name = Annotated[str, argument("NAME", "Name of the item, as `pai market list` shows it.")]


def list_(
    keyword: Annotated[str, argument("[WORDS]", "Only items with these words.")] = "",
    kind: Annotated[str, option("--kind KIND", "template, dataset or model.")] = "",
    category: Annotated[str, option("--category NAME", "Only of this category.")] = "",
    tag: Annotated[str, option("--tag TAG", "Only with this tag.")] = "",
    author: Annotated[str, option("--author USER", "Only by this user.")] = "",
    starred: Annotated[bool, option("--starred", "Only those with your star.")] = False,
    waiting: Annotated[bool, option("--waiting", "Only those that wait for approval.")] = False,
    order: Annotated[str, option("--order ORDER", "stars, uses, newest or name.")] = "stars",
    limit: Annotated[int, option("--limit N", "How many at most.", min=1, max=200)] = 50,
    json: output.Json = False,
) -> None:
    """List the items that you may see: public ones, those shared with you, and your own."""
    for given, legal, name in ((kind, KINDS, "--kind"), (order, ORDERS, "--order")):
        if given and given not in legal:
            raise InvalidParameters(f"{name}: {given!r} is none of {', '.join(legal)}", "choose one of these")
    where: MarketFilters = {
        "keyword": keyword, "kind": kind, "category": category, "tag": tag, "author": author, "order": order,
        "status": "waiting" if waiting else "",
    }  # fmt: skip
    if starred:
        where["starred"] = True
    with session.connect() as pai:
        page = pai.market_items(limit=limit, **where)
    if output.is_shown(json, page.document, page.items, "No items.", "pai market publish --help"):
        return
    rows = [
        (one.name, one.kind, _author(one), str(one.stars), str(one.uses), _state(one), one.title) for one in page.items
    ]
    headings = ("NAME", "KIND", "AUTHOR", "STARS", "USES", "STATE", "TITLE")
    output.table(headings, rows, right=("STARS", "USES"), whole=("NAME", "KIND", "STATE"))
    if page.total > len(page.items):
        output.aside(f"{page.total - len(page.items)} more: give WORDS, or --limit")
    output.next_step(f"pai market show {page.items[0].name}", f"pai market run {page.items[0].name}")


def _author(one: MarketItem) -> str:
    return f"{one.author} (official)" if one.is_official else one.author


def _state(one: MarketItem) -> str:
    return one.visibility if one.status == "approved" else one.status


def show(
    name: Name,
    file: Annotated[bool, option("--file", "Print only its job file.")] = False,
    json: output.Json = False,
) -> None:
    """Show an item: what it is, its parameters and its description."""
    with session.connect() as pai:
        found = pai.market_item(name)
    if output.as_json(json, found.document):
        return
    if file:
        if not found.protocol:
            raise InvalidParameters(f"item {name} has no job file", f"`pai market show {name}` shows where it is")
        sys.stdout.write(harmless(found.protocol))
        return
    output.facts(_facts(found))
    if found.description:
        output.say()
        output.say(found.description)
    if found.usage:
        output.say()
        output.say(found.usage.rstrip())
    steps = [f"pai market run {name}", f"pai market show {name} --file"] if found.protocol else []
    output.next_step(*steps, f"pai market rate {name}")


def _facts(found: MarketDetail) -> tuple[tuple[str, str], ...]:
    shared = ", ".join((*found.groups, *found.virtual_clusters))
    parameters = ", ".join(f"{one.name}={one.value}" for one in found.parameters)
    proposed = f"revision {found.proposed.revision} is not approved" if found.proposed else ""
    return (
        ("item", found.name), ("title", found.title), ("summary", found.summary), ("kind", found.kind),
        ("author", _author(found)), ("visible to", shared if found.visibility == "shared" else found.visibility),
        ("state", "" if found.status == "approved" else found.status), ("proposed", proposed),
        ("rejected because", found.reason), ("categories", ", ".join(found.categories)),
        ("tags", ", ".join(found.tags)), ("storage", found.storage), ("path", found.path),
        ("address", found.address), ("parameters", parameters), ("secrets", ", ".join(found.secrets)),
        ("stars", f"{found.stars}{', yours among them' if found.is_starred else ''}"),
        ("uses", f"{plural(found.uses, 'job')} of {plural(found.users, 'user')}"),
        ("revision", f"{found.revision}, of {clock_time(found.changed_at_ms)} by {found.changed_by}"),
    )  # fmt: skip


def remove(name: Name, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove an item for good, with its stars and revisions; jobs that were submitted from it stay."""
    if not json:
        prompts.check_sure(f"Remove item {name} for good?", yes)
    with session.connect() as pai:
        pai.remove_market_item(name)
    output.done(json, {"name": name, "removed": True}, f"Removed item {name}.", "pai market list")


def rate(
    name: Name,
    remove: Annotated[bool, option("--remove", "Take your star back.")] = False,
    json: output.Json = False,
) -> None:
    """Give an item your star, or take it back; each user has one for each item."""
    with session.connect() as pai:
        found = pai.rate_market_item(name, is_given=not remove)
    output.done(json, found.document, f"Item {name} has {plural(found.stars, 'star')}.", f"pai market show {name}")
