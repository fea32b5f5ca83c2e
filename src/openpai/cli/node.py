"""`pai node`: the machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from openpai.cli import output, session, words

if TYPE_CHECKING:
    from rich.table import Table

    from openpai.client import NodeView

app = typer.Typer(help="The machines that run jobs.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keep `node` a group while it has one command only."""


def _table(nodes: tuple[NodeView, ...]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NODE", overflow="fold")
    table.add_column("ADDRESS", overflow="fold")
    for heading in ("CPUS", "MEMORY", "GPUS", "TASKS"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("STATE", overflow="fold")
    for node in nodes:
        table.add_row(
            escape(node.name),
            node.address,
            f"{node.cpus.used}/{node.cpus.total}",
            f"{words.memory(node.memory_mb.used)}/{words.memory(node.memory_mb.total)}",
            f"{node.gpus.used}/{node.gpus.total}",
            str(node.tasks),
            "[green]healthy[/]" if node.is_healthy else f"[red]{escape(node.told) or 'not healthy'}[/]",
        )
    return table


@app.command("list")
def list_(json: output.Json = False) -> None:
    """List the machines and how much of each is in use."""
    with session.connect() as pai:
        nodes = pai.nodes()
    if json:
        output.document([node.document for node in nodes])
        return
    if not nodes:
        output.say("No nodes: the platform's backend has found no machine to run jobs on.")
        return
    output.say(_table(nodes))
    gpus = sum(node.gpus.total - node.gpus.used for node in nodes if node.is_healthy)
    cpus = sum(node.cpus.total - node.cpus.used for node in nodes if node.is_healthy)
    output.say(f"[dim]{words.plural(len(nodes), 'node')}; free: {cpus} CPUs, {gpus} GPUs (columns: used/total)[/]")
