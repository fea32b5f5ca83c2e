"""`pai node`: the nodes, and taking them out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, formatting, output, session
from openpai.cli.durations import FORMS, whole_seconds
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client import NodeView

COMMANDS: Final = {
    "list": ("openpai.cli.node:list_", "List the nodes and how much of each is in use."),
    "show": ("openpai.cli.node_show:show", "Show a node: its GPUs, the jobs on it, and its history."),
    "drain": (
        "openpai.cli.node:drain",
        "Drain a node: it gets no new tasks, and those that run there may end.",
    ),
    "undrain": ("openpai.cli.node:undrain", "Undrain a node: it gets tasks again."),
    "mark-bad": ("openpai.cli.node:mark_bad", "Mark the bad GPUs of a node; no task gets them."),
    "lemons": (
        "openpai.cli.node_lemons:lemons",
        "List nodes that failed jobs, and set when they are drained.",
    ),
    "forget": ("openpai.cli.node:forget", "Forget a node that is gone for good."),
}
app = group("The nodes that run jobs.", COMMANDS)

Node = Annotated[str, argument("NODE", "Name of the node, as `pai node list` shows it.", completion.nodes)]
Reason = Annotated[str, option("--reason TEXT", "Reason, shown to users.")]


def list_(json: output.Json = False) -> None:
    """List the nodes and how much of each is in use."""
    with session.connect() as pai:
        nodes = pai.nodes()
    empty = "No nodes: the backend has found no machine that can run tasks."
    if output.is_shown(json, [node.document for node in nodes], nodes, empty, "pai up --help"):
        return
    from openpai.cli.cluster_tables import node_list

    output.say(node_list(nodes))
    open_ = [node for node in nodes if node.is_healthy and not node.is_drained]
    gpus = sum(max(0, node.gpus.total - node.gpus.used - len(node.bad_devices)) for node in open_)
    cpus = sum(node.cpus.total - node.cpus.used for node in open_)
    output.say_marked_up(
        f"[dim]{formatting.plural(len(nodes), 'node')}; free: {cpus} CPUs, {gpus} GPUs (columns: used/total)[/]"
    )


def drain(
    node: Node,
    reason: Reason = "",
    deadline: Annotated[str | None, option("--deadline TIME", f"Time until jobs on it are stopped: {FORMS}.")] = None,
    json: output.Json = False,
) -> None:
    """Drain a node: it gets no new tasks, and those that run there may end.

    At the deadline, jobs that still run there are preempted with their grace period, and wait for another node as a
    new attempt. Without --deadline an earlier deadline is removed.
    """
    deadline_s = None if deadline is None else whole_seconds(deadline, "--deadline", least=0)
    with session.connect() as pai:
        found = pai.change_node(node, is_drained=True, reason=reason, deadline_s=deadline_s)
    at_ms = found.drain_deadline_ms
    until = "until they end" if at_ms is None else f"until {formatting.clock_time(at_ms)}"
    left = f"{formatting.plural(found.tasks, 'task')} {'keeps' if found.tasks == 1 else 'keep'}"
    message = f"{found.name} gets no new tasks; {left} running there {until}."
    output.done(json, found.document, message, f"pai node show {found.name}", f"pai node undrain {found.name}")


def undrain(node: Node, json: output.Json = False) -> None:
    """Undrain a node: it gets tasks again, and its lemon score is 0."""
    with session.connect() as pai:
        found = pai.change_node(node, is_drained=False)
    _report(found, f"{found.name} gets tasks again.", json)


def mark_bad(
    node: Node,
    devices: Annotated[str, argument("GPUS", "Numbers of the bad GPUs, such as 0,3; `none` when all are good.")],
    reason: Reason = "",
    json: output.Json = False,
) -> None:
    """Mark the bad GPUs of a node; no task gets them.

    The numbers replace the earlier ones. Jobs that hold a bad GPU keep running.
    """
    numbers = _numbers(devices)
    with session.connect() as pai:
        found = pai.change_node(node, bad_devices=numbers, reason=reason)
    bad = ", ".join(map(str, found.bad_devices))
    _report(found, f"Bad GPUs of {found.name}: {bad}." if bad else f"All GPUs of {found.name} are good.", json)


def forget(node: Node, json: output.Json = False) -> None:
    """Forget a machine that is gone for good, so that no virtual cluster is guaranteed anything on it."""
    with session.connect() as pai:
        pai.forget_node(node)
    output.done(json, {"name": node, "forgotten": True}, f"{node} is forgotten.", "pai node list", "pai vc list")


def _numbers(text: str) -> list[int]:
    if text.strip().lower() == "none":
        return []
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0:
        raise InvalidParameters(f"{text!r} are not GPU numbers", "write them as 0,3 or write none")
    return numbers


def _report(found: NodeView, message: str, is_json: bool) -> None:
    output.done(is_json, found.document, message, "pai node list")
