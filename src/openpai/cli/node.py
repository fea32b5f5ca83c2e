"""`pai node`: the machines, and taking them out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from openpai.cli import completing, output, session, words
from openpai.cli.durations import FORMS, whole_seconds
from openpai.cli.lazy import group
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import NodeView

COMMANDS: Final = {
    "list": ("openpai.cli.node:list_", "List the machines and how much of each is in use."),
    "show": ("openpai.cli.node_show:show", "Show a machine: its devices, the jobs on it, and what was done to it."),
    "drain": (
        "openpai.cli.node:drain",
        "Let a machine take nothing new; what runs there may end first.",
    ),
    "undrain": ("openpai.cli.node:undrain", "Let a drained machine take jobs again."),
    "mark-bad": ("openpai.cli.node:mark_bad", "Say which GPUs of a machine are bad; nobody is given them."),
    "forget": ("openpai.cli.node:forget", "Forget a machine that is gone for good."),
}
app = group("The machines that run jobs.", COMMANDS)

Node = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="Name of the machine, as `pai node list` shows it.", autocompletion=completing.nodes
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for those who wonder.")]


def list_(json: output.Json = False) -> None:
    """List the machines and how much of each is in use."""
    with session.connect() as pai:
        nodes = pai.nodes()
    if json:
        output.document([node.document for node in nodes])
        return
    if not nodes:
        output.say("No nodes: the platform's backend has found no machine to run jobs on.")
        output.next_step("pai up --help")
        return
    from openpai.cli.bars import node_list

    output.say(node_list(nodes))
    open_ = [node for node in nodes if node.is_healthy and not node.is_drained]
    gpus = sum(max(0, node.gpus.total - node.gpus.used - len(node.bad_devices)) for node in open_)
    cpus = sum(node.cpus.total - node.cpus.used for node in open_)
    output.say_marked_up(
        f"[dim]{words.plural(len(nodes), 'node')}; free: {cpus} CPUs, {gpus} GPUs (columns: used/total)[/]"
    )


def drain(
    node: Node,
    reason: Reason = "",
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help=f"How long jobs may run on: {FORMS}.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Let a machine take nothing new; what runs there may end first.

    Jobs that still run there at the deadline are ended like any that must leave, with their grace period, and wait
    for another place as a new attempt. Without --deadline one that was set before is gone.
    """
    deadline_s = None if deadline is None else whole_seconds(deadline, "--deadline", least=0)
    with session.connect() as pai:
        found = pai.change_node(node, is_drained=True, reason=reason, deadline_s=deadline_s)
    if json:
        output.document(found.document)
        return
    left = words.plural(found.tasks, "task")
    until = "to the end" if found.drain_deadline_ms is None else f"until {words.clock_time(found.drain_deadline_ms)}"
    output.say(f"{found.name} takes nothing new; {left} {'runs' if found.tasks == 1 else 'run'} there {until}.")
    output.next_step(f"pai node show {found.name}", f"pai node undrain {found.name}")


def undrain(node: Node, json: output.Json = False) -> None:
    """Let a drained machine take jobs again."""
    with session.connect() as pai:
        found = pai.change_node(node, is_drained=False)
    _describe(found, f"{found.name} takes jobs again.", json)


def mark_bad(
    node: Node,
    devices: Annotated[
        str, typer.Argument(metavar="GPUS", help="Numbers of the bad GPUs, such as 0,3; `none` when all are good.")
    ],
    reason: Reason = "",
    json: output.Json = False,
) -> None:
    """Say which GPUs of a machine are bad; nobody is given them.

    The numbers replace those said before. Jobs that hold a bad GPU run on.
    """
    numbers = _numbers(devices)
    with session.connect() as pai:
        found = pai.change_node(node, bad_devices=numbers, reason=reason)
    bad = ", ".join(map(str, found.bad_devices))
    _describe(found, f"Bad GPUs of {found.name}: {bad}." if bad else f"All GPUs of {found.name} are good.", json)


def forget(node: Node, json: output.Json = False) -> None:
    """Forget a machine that is gone for good, so that nothing is promised on it any more."""
    with session.connect() as pai:
        pai.forget_node(node)
    if json:
        output.document({"name": node, "forgotten": True})
        return
    output.say(f"{node} is forgotten.")
    output.next_step("pai node list", "pai vc list")


def _numbers(text: str) -> list[int]:
    if text.strip().lower() == "none":
        return []
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0:
        raise Refused("InvalidParametersError", f"{text!r} are no GPU numbers", "write them as 0,3 or say none")
    return numbers


def _describe(found: NodeView, message: str, is_json: bool) -> None:
    if is_json:
        output.document(found.document)
        return
    output.say(message)
    output.next_step("pai node list")
