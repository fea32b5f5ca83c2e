"""`pai market import|export`: items as files. Import also reads what OpenPAI's marketplace has.

It takes what `export` prints, the answers of OpenPAI's marketplace to `GET /items` and `GET /items/ID`, and plain job
files. It can be repeated: an item of the same name with the same content stays as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import yaml

from openpai.cli import output, session
from openpai.cli.exits import Exit
from openpai.cli.formatting import plural
from openpai.cli.market_edit import CONTENT
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters, InvalidProtocol, PaiError, Refused
from openpai.protocol.writing import yaml_text

if TYPE_CHECKING:
    from openpai.client import Client

FILE_MAX: Final = 64 << 20
_KINDS: Final = {"template": "template", "old": "template", "data": "dataset", "dataset": "dataset", "model": "model"}
_OFFICIAL: Final = "official example"


def import_(
    files: Annotated[list[Path], argument("FILE", "Files of items, or job files.")],
    private: Annotated[bool, option("--private", "Let only yourself see them.")] = False,
    json: output.Json = False,
) -> int:
    """Publish what files of items hold, OpenPAI's included, or job files as templates.

    It can be repeated: what is here already stays, and items of yours get what changed in the file.
    """
    wanted = [item for file in files for item in _items_in(file)]
    if private:
        wanted = [{**item, "visibility": "private", "groups": [], "virtualClusters": []} for item in wanted]
    with session.connect() as pai:
        results = [_imported(pai, item) for item in wanted]
    failed = [one for one in results if one["action"] == "refused"]
    if not output.as_json(json, {"items": results}):
        rows = [(one["name"], one["action"], one["reason"]) for one in results]
        output.table(("NAME", "RESULT", "REASON"), rows, whole=("NAME", "RESULT"))
        output.say(f"{plural(len(results) - len(failed), 'item')} here, {len(failed)} refused.")
        output.next_step("pai market list")
    return Exit.REFUSED if failed else Exit.OK


def export(
    names: Annotated[list[str] | None, argument("[NAME]", "Names of items [default: all that you see].")] = None,
    json: output.Json = False,
) -> None:
    """Print items as a file that `pai market import` reads."""
    with session.connect() as pai:
        found = [pai.market_item(name).document for name in names or _all(pai)]
    items = [{key: item[key] for key in ("name", "kind", *CONTENT)} for item in found]
    if not output.as_json(json, {"marketItems": items}):
        sys.stdout.write(yaml_text({"marketItems": items}))


def _all(pai: Client) -> Iterator[str]:
    offset = 0
    while page := pai.market_items(limit=200, offset=offset, order="name").items:
        yield from (one.name for one in page)
        offset += len(page)


def _items_in(file: Path) -> list[dict[str, Any]]:
    text = read_text(file, "a file of items", most=FILE_MAX)
    try:
        # JSON is YAML, too.
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise InvalidParameters(f"{file} is neither YAML nor JSON: {message}", "name a file of items") from error
    if isinstance(found, dict) and "taskRoles" in found:
        return [_template(file.stem, text, found)]
    if isinstance(found, dict):
        found = found.get("marketItems", found.get("items", [found] if "protocol" in found else None))
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        message = f"{file} holds no items"
        raise InvalidParameters(message, "name a file of `pai market export`, or OpenPAI's list of items")
    taken: set[str] = set()
    return [_read(each, taken) for each in found]


def _template(stem: str, text: str, document: Mapping[str, Any]) -> dict[str, Any]:
    title = str(document.get("name") or stem)
    summary = " ".join(str(document.get("description") or "").split())[:300]
    return {"name": _slug(stem), "kind": "template", "title": title[:100], "summary": summary, "protocol": text}


def _read(item: Mapping[str, Any], taken: set[str]) -> dict[str, Any]:
    """Return an item as the API takes it; one of OpenPAI has other keys, and a name of any characters."""
    if "kind" in item:
        return {key: item[key] for key in ("name", "kind", *CONTENT) if key in item}
    title = str(item.get("name") or "item")
    name = _slug(title)
    if name in taken:
        name = _slug(f"{name[:50]}-{str(item.get('id', len(taken)))[:8]}")
    taken.add(name)
    groups = [str(each) for each in item.get("groupList") or ()]
    is_public = item.get("isPublic", not groups)
    visibility = "private" if item.get("isPrivate") else "public" if is_public else "shared" if groups else "private"
    kind = _KINDS.get(str(item.get("type")), "template")
    address = str(item.get("dataUrl") or "")
    return {
        "name": name,
        # A data template without an address is the job file that shows how to use the data.
        "kind": kind if address or kind == "template" else "template",
        "title": title[:100],
        "summary": " ".join(str(item.get("summary") or "").split())[:300],
        "description": str(item.get("description") or "").replace("\r\n", "\n"),
        "protocol": str(item.get("protocol") or ""),
        "address": address,
        "categories": [str(each) for each in item.get("categories") or () if each != _OFFICIAL],
        "tags": [str(each) for each in item.get("tags") or ()],
        "visibility": visibility,
        "groups": groups if visibility == "shared" else [],
    }


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", text.lower())[:64].strip("-._") or "item"


def _imported(pai: Client, item: Mapping[str, Any]) -> dict[str, str]:
    name = str(item.get("name"))
    try:
        action = _published(pai, name, item)
    except InvalidProtocol as error:
        reasons = "; ".join(fault.describe() for fault in error.faults[:5])
        return {"name": name, "action": "refused", "reason": reasons}
    except PaiError as error:
        if not isinstance(error, Refused):
            raise
        return {"name": name, "action": "refused", "reason": error.message}
    return {"name": name, "action": action, "reason": ""}


def _published(pai: Client, name: str, item: Mapping[str, Any]) -> str:
    try:
        here = pai.market_item(name)
    except Refused as error:
        if error.code != "NoMarketItemError":
            raise
        pai.publish_market_item(item)
        return "published"
    known = (here.proposed or here).document
    content = {key: known[key] for key in CONTENT} | {key: value for key, value in item.items() if key in CONTENT}
    if content == {key: known[key] for key in CONTENT}:
        return "unchanged"
    if not here.is_editable:
        raise Refused("ForbiddenUserError", f"there is another item of this name, by {here.author}")
    pai.edit_market_item(name, content, revision=here.newest)
    return "changed"
