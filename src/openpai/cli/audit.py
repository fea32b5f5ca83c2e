"""`pai audit`: the requests that users made, and what they changed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, formatting, output, session
from openpai.cli.filters import moment_ms
from openpai.cli.lazy import group
from openpai.cli.options import option

if TYPE_CHECKING:
    from openpai.client.model import AuditEntry

COMMANDS: Final = {"list": ("openpai.cli.audit:list_", "List requests that changed something, newest first.")}
MOST: Final = 1000
app = group("The audit log: who did what.", COMMANDS)


def list_(
    actor: Annotated[str, option("--actor NAME", "Requests of this user.", completion.users)] = "",
    action: Annotated[str, option("--action ACTION", "An action, such as group.change.")] = "",
    target: Annotated[str, option("--target OBJECT", "Requests about exactly this.")] = "",
    concerning: Annotated[
        str, option("--concerning NAME", "Requests by this user, or about their things.", completion.users)
    ] = "",
    since: Annotated[str | None, option("--since TIME", "Since 10m, 2h, 1d12h ago or 2026-01-31.")] = None,
    before: Annotated[str | None, option("--before TIME", "Before 10m, 2h, 1d12h ago or 2026-01-31.")] = None,
    limit: Annotated[int, option("--limit -n N", "Greatest number of entries.", min=1, max=MOST)] = 20,
    details: Annotated[bool, option("--details -d", "Also the request, its address and its token or login.")] = False,
    json: output.Json = False,
) -> None:
    """List requests that changed something, newest first.

    Administrators see all entries; others see what they did and what was done to their own jobs and account.
    """
    with session.connect() as pai:
        page = pai.audit(
            actor=actor,
            action=action,
            target=target,
            concerning=concerning,
            from_=None if since is None else moment_ms(since, time.time()),
            to=None if before is None else moment_ms(before, time.time()),
            limit=limit,
        )
    if output.as_json(json, page.document):
        return
    if not page.entries:
        output.say(
            "No entry matches." if any((actor, action, target, concerning, since, before)) else "No entries yet."
        )
        output.next_step("pai audit list --since 7d")
        return
    (_print_details if details else _print_table)(page.entries)
    if page.next is not None:
        more = f"--limit {min(MOST, limit * 5)}" if limit < MOST else f"--before {_moment(page.entries[-1].at_ms)}"
        output.say_marked_up(f"[dim]older entries exist; see them with {more}[/]")


def _print_table(entries: Iterable[AuditEntry]) -> None:
    rows = [(formatting.clock_time(one.at_ms), one.actor, one.action, one.target, str(one.status)) for one in entries]
    output.table(["TIME", "USER", "ACTION", "TARGET", "STATUS"], rows, right=["STATUS"], whole=["TIME"])


def _print_details(entries: Iterable[AuditEntry]) -> None:
    for one in entries:
        what = f"{one.action}  {one.target or '-'}  {one.status}"
        output.say(f"{formatting.clock_time(one.at_ms)}  {one.actor or '-'}  {what}")
        sent = formatting.details(one.document.get("detail") or {})
        way = " ".join(filter(None, (one.address and f"from {one.address}", one.via and f"with {one.via}")))
        output.say("    " + "; ".join(filter(None, (sent, way))))


def _moment(at_ms: int | None) -> str:
    return datetime.fromtimestamp((at_ms or 0) / 1000).astimezone().isoformat(timespec="milliseconds")
