"""`pai market publish|edit|fork|history`: what users write into items."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import completion, job_file, output, session
from openpai.cli.formatting import clock_time
from openpai.cli.market import KINDS, Name
from openpai.cli.options import argument, fields_as_options, option, setting
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters, InvalidProtocol
from openpai.protocol.wording import harmless

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import MarketDetail, MarketRevision

DESCRIPTION_MAX: Final = 256 << 10
CONTENT: Final = (
    "title", "summary", "description", "protocol", "storage", "path", "address", "categories", "tags", "visibility",
    "groups", "virtualClusters",
)  # fmt: skip
"""Keys of an item that an edit replaces."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What an item says; each field is an option of the commands that write one."""

    title: str | None = setting("Title of the item.", flags="--title TEXT")
    summary: str | None = setting("One sentence on it.", flags="--summary TEXT")
    description: Path | None = setting("File with its description, in Markdown.", flags="--description FILE")
    file: str | None = setting("Job file of the item; - reads standard input.", flags="--file FILE")
    job: str | None = setting("Take the job file of this job, its secrets masked.", flags="--job NAME",
                              complete=completion.jobs)  # fmt: skip
    storage: str | None = setting("Storage that has the data.", flags="--storage NAME")
    path: str | None = setting("Path in the storage.", flags="--path PATH")
    address: str | None = setting("URL of the data, if it is in no storage.", flags="--address URL")
    category: list[str] | None = setting("Category; may be repeated.", flags="--category NAME")
    tag: list[str] | None = setting("Tag; may be repeated.", flags="--tag TAG")
    visibility: str | None = setting("public or private.", flags="--visibility WHO")
    group: list[str] | None = setting("Share it with this group only; may be repeated.", flags="--group NAME",
                                      complete=completion.groups)  # fmt: skip
    vc: list[str] | None = setting("Share it with the users of this virtual cluster only.", flags="--vc NAME",
                                   complete=completion.virtual_clusters)  # fmt: skip
    official: bool | None = setting("For administrators: only they change it.", flags="--official/--no-official")
    comment: str | None = setting("What the edit is for; kept in the history.", flags="--comment TEXT")


@fields_as_options(Texts, "texts")
def publish(
    name: Annotated[str, argument("NAME", "Name of the new item: small letters, digits, dots, - and _.")],
    kind: Annotated[str, option("--kind KIND", "template, dataset or model.")] = "template",
    *,
    texts: Texts,
    json: output.Json = False,
) -> None:
    """Publish a job file (--file or --job), a data set or a model.

    Its job file must not hold secrets: write ****** in place of each, and whoever runs it gives their own.
    """
    if kind not in KINDS:
        raise InvalidParameters(f"--kind: {kind!r} is none of {', '.join(KINDS)}", "choose one of these")
    with session.connect() as pai:
        content = _written(pai, texts)
        title = content.pop("title", name)
        found = _sent(pai, texts, {"name": name, "kind": kind, "title": title, **content})
    _report(found, f"Published {name}.", json)


@fields_as_options(Texts, "texts")
def edit(
    name: Name,
    to: Annotated[int | None, option("--to N", "Back to this revision.", min=1)] = None,
    *,
    texts: Texts,
    json: output.Json = False,
) -> None:
    """Change an item; what no option names stays. Where items need approval, others see the edit once it has it."""
    with session.connect() as pai:
        found = pai.market_item(name)
        origin: MarketDetail | MarketRevision = found.proposed or found
        if to is not None:
            origin = pai.market_revision(name, to)
        content = {**_content(origin.document), **_written(pai, texts)}
        if to is None and content == _content(origin.document) and texts.official in (None, found.is_official):
            raise InvalidParameters("nothing is to be changed", "`pai market edit --help` shows the options")
        if to is not None and "comment" not in content:
            content["comment"] = f"back to revision {to}"
        after = _sent(pai, texts, content, name, found.newest)
    _report(after, f"Item {name} is at revision {after.newest}.", json)


def fork(
    name: Name,
    new: Annotated[str, argument("NEW", "Name of your item.")],
    public: Annotated[bool, option("--public", "Let everybody see it; otherwise only you do.")] = False,
    json: output.Json = False,
) -> None:
    """Copy an item into one of your own, which you can change."""
    with session.connect() as pai:
        origin = pai.market_item(name)
        shares: dict[str, Any] = {"visibility": "public" if public else "private", "groups": [], "virtualClusters": []}
        body = {**_content(origin.document), **shares, "name": new, "kind": origin.kind}
        found = pai.publish_market_item({**body, "comment": f"a copy of {name}, revision {origin.revision}"})
    _report(found, f"Item {new} is your copy of {name}.", json)


def history(
    name: Name,
    show: Annotated[int | None, option("--show N", "Print the job file of this revision.", min=1)] = None,
    json: output.Json = False,
) -> None:
    """Show the revisions of an item; its author and administrators see them."""
    with session.connect() as pai:
        if show is not None:
            one = pai.market_revision(name, show)
            if not output.as_json(json, one.document):
                sys.stdout.write(harmless(one.protocol))
            return
        found = pai.market_revisions(name)
    if output.as_json(json, [one.document for one in found]):
        return
    rows = [(str(one.revision), clock_time(one.at_ms), one.user, one.comment) for one in found]
    output.table(("REVISION", "TIME", "USER", "COMMENT"), rows, right=("REVISION",), whole=("REVISION", "TIME"))
    output.next_step(f"pai market edit {name} --to {found[-1].revision}")


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in CONTENT}


def _written(pai: Client, texts: Texts) -> dict[str, Any]:
    """Return the keys that the options set."""
    if texts.file is not None and texts.job is not None:
        raise InvalidParameters("--file and --job are given", "give one of them")
    if texts.visibility not in (None, "public", "private"):
        raise InvalidParameters(f"--visibility: {texts.visibility!r} is neither public nor private", "choose one")
    is_shared = bool(texts.group or texts.vc)
    if is_shared and texts.visibility:
        raise InvalidParameters("--visibility and groups are given", "give one of them")
    found: dict[str, Any] = {
        "title": texts.title, "summary": texts.summary, "storage": texts.storage, "path": texts.path,
        "address": texts.address, "categories": texts.category, "tags": texts.tag, "official": texts.official,
        "comment": texts.comment, "visibility": "shared" if is_shared else texts.visibility,
    }  # fmt: skip
    if is_shared or texts.visibility:
        found |= {"groups": texts.group or [], "virtualClusters": texts.vc or []}
    if texts.description is not None:
        found["description"] = read_text(texts.description, "a description", most=DESCRIPTION_MAX)
    if texts.file is not None:
        found["protocol"] = job_file.read(texts.file).decode("utf-8", "replace")
    if texts.job is not None:
        found["protocol"] = pai.config(texts.job)
    return {key: value for key, value in found.items() if value is not None}


def _sent(
    pai: Client, texts: Texts, content: Mapping[str, Any], name: str = "", revision: int | None = None
) -> MarketDetail:
    try:
        if name:
            return pai.edit_market_item(name, content, revision=revision)
        return pai.publish_market_item(content)
    except InvalidProtocol as refusal:
        refusal.message += "\n\n" + job_file.describe(str(content.get("protocol", "")), refusal.faults)
        if texts.job:
            refusal.advice += f"; `pai job config {texts.job}` prints the file"
        raise


def _report(found: MarketDetail, message: str, json: bool) -> None:
    if found.status == "pending" or found.proposed is not None:
        message += " Others see it once an administrator approves it."
    steps = [f"pai market run {found.name}"] if found.protocol else []
    output.done(json, found.document, message, f"pai market show {found.name}", *steps)
