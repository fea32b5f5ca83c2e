"""`pai vc`: virtual clusters, what they were promised, and promising something else while everything runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openpai.cli import completing, output, prompts, session, words
from openpai.cli.lazy import group
from openpai.cli.textfile import read_text
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client.model.sharing import ClusterConfig

COMMANDS: Final = {
    "list": ("openpai.cli.vc:list_", "List the virtual clusters: what they were promised and what of it is in use."),
    "show": ("openpai.cli.vc:show", "Show one virtual cluster, a resource a line."),
    "set": ("openpai.cli.vc:set_", "Promise a virtual cluster something; it is made if it is new."),
    "remove": ("openpai.cli.vc:remove", "Remove a virtual cluster that no job uses."),
    "config": ("openpai.cli.vc:config", "Show what was promised to whom, and the configuration that follows."),
    "apply": ("openpai.cli.vc:apply", "Promise everything anew, from a file in HiveD's format or from wishes."),
    "order": ("openpai.cli.vc:order", "Show or set who goes first in a virtual cluster: fair, fifo or shortest."),
    "inspect": ("openpai.cli.vc:inspect", "Draw the cells of the cluster, or those of a virtual cluster."),
}
ORDERS: Final = {
    "fair": "those of whoever used less lately go first",
    "fifo": "the oldest job goes first",
    "shortest": "the job that should be done soonest goes first",
}
app = group("Virtual clusters: who is promised what.", COMMANDS)

Vc = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the virtual cluster.", autocompletion=completing.virtual_clusters),
]


def list_(json: output.Json = False) -> None:
    """List the virtual clusters: what they were promised and what of it is in use."""
    with session.connect() as pai:
        found = pai.virtual_clusters()
    if json:
        output.document({vc.name: vc.document for vc in found})
        return
    from openpai.cli import bars

    output.say(bars.vc_list(found))
    output.say_marked_up("[dim]columns: used/healthy/promised; RUNS and WAITS count gangs[/]")
    if len(found) == 1:
        output.next_step('pai vc set team-a "1 node"', "pai node list")
        return
    output.next_step(f"pai vc show {_quoted(found[0].name)}")


def show(name: Vc, json: output.Json = False) -> None:
    """Show one virtual cluster, a resource a line."""
    with session.connect() as pai:
        vc = pai.virtual_cluster(name)
        types = pai.sku_types(name) if not json and vc.skus else {}
    if json:
        output.document({"name": name, **vc.document})
        return
    from rich.markup import escape

    from openpai.cli import bars

    output.say_marked_up(
        f"[bold]{escape(vc.name)}[/]: {words.plural(vc.running, 'gang')} running, {vc.waiting} waiting"
    )
    output.say(bars.vc_facts(vc))
    for kind, count in vc.skus:
        sku = types.get(kind) or {}
        each = (
            (words.plural(sku["cpu"], "CPU"), words.memory(sku["memory"]), words.plural(sku["gpu"], "GPU"))
            if sku
            else ()
        )
        output.say(f"SKU {kind}: {count}" + (f", each {', '.join(each)}" if each else ""))
    if not vc.skus:
        output.say("It was promised nothing: only opportunistic jobs (jobPriorityClass: oppo) run in it.")
        output.next_step(f'pai vc set {_quoted(name)} "1 node"')
        return
    output.next_step(f"pai job list --all --vc {_quoted(name)}", f"pai vc inspect {_quoted(name)}")


def set_(
    name: Vc,
    promise: Annotated[
        str, typer.Argument(metavar="WISH", help='Such as "3 nodes", "8 GPUs of A100" or "8 GPUs of A100 + 2 nodes".')
    ],
    json: output.Json = False,
) -> None:
    """Promise a virtual cluster something; it is made if it is new.

    It counts at once. Jobs that run are never stopped for it.
    """
    with session.connect() as pai:
        changed = pai.promise(name, promise)
    _changed(changed, f"{name} is promised {promise}.", json)


def order(
    name: Vc,
    promise: Annotated[
        str | None, typer.Argument(metavar="ORDER", help="fair, fifo or shortest.", show_default=False)
    ] = None,
    json: output.Json = False,
) -> None:
    """Show or set who goes first among equally urgent jobs of a virtual cluster.

    fair: whoever used less lately. fifo: the oldest job. shortest: the job that should be done soonest, judged by how
    long jobs like it ran; one that has waited long goes before these.
    """
    if promise is not None and promise not in ORDERS:
        raise Refused("InvalidParametersError", f"{promise!r} is no order", f"say {', '.join(ORDERS)}")
    with session.connect() as pai:
        found = pai.orders()
        if promise is not None:
            others = {vc: each for vc, each in found["orders"].items() if vc != name}
            found = pai.set_orders(others | {name: promise}, found["version"])
        else:
            pai.virtual_cluster(name)
    own = found["orders"].get(name, "fair")
    if json:
        output.document({"name": name, "order": own, "version": found["version"]})
        return
    output.say(f"{name}: {own}, {ORDERS[own]}.")
    if promise is None:
        output.next_step(f"pai vc order {_quoted(name)} {'fair' if own == 'shortest' else 'shortest'}")


def remove(name: Vc, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove a virtual cluster that no job uses."""
    prompts.check_sure(f"Remove virtual cluster {name}, and promise it nothing any more?", yes)
    with session.connect() as pai:
        changed = pai.remove_virtual_cluster(name)
    _changed(changed, f"{name} is removed; what it was promised goes to default.", json)


def config(
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the configuration there.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Show what was promised to whom, and the configuration that follows."""
    with session.connect() as pai:
        found = pai.cluster_config()
    if file is not None:
        write(file, found.hived)
    if json:
        output.document(found.document)
        return
    for problem in found.problems:
        output.warn(problem)
    promises = "a whole configuration" if found.promises is None else found.promises or "everything to default"
    output.aside(f"version {found.version}; promised: {promises}")
    if file is None:
        sys.stdout.write(found.hived)
        return
    output.say(f"Written to {file}.")
    output.next_step(f"pai vc apply {file}")


def apply(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Configuration in HiveD's format; - reads it from the input.")
    ] = None,
    promises: Annotated[
        str | None, typer.Option("--wishes", metavar="TEXT", help='Instead of a file: "team-a: 3 nodes, b: 8 GPUs".')
    ] = None,
    version: Annotated[
        int | None, typer.Option("--if-version", metavar="N", min=0, help="Refuse if it is at another version by now.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Promise everything anew, from a file in HiveD's format or from wishes.

    It counts at once, or is refused with every fault. Jobs that run are never stopped for it.
    """
    if (file is None) == (promises is None):
        raise Refused("InvalidParametersError", "give either a file or --wishes", "see pai vc apply --help")
    hived = None if file is None else read(file)
    with session.connect() as pai:
        changed = pai.configure(promises=promises, hived=hived, version=version)
    _changed(changed, "The cluster is shared anew.", json)


def inspect(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A virtual cluster [default: the machines].",
            autocompletion=completing.virtual_clusters,
        ),
    ] = None,
    json: output.Json = False,
) -> None:
    """Draw the cells of the cluster, or those of a virtual cluster.

    With --json in the shapes of HiveD's own inspection.
    """
    from openpai.client.calls.naming import segment

    below = "virtualclusters/" + segment(name, "a virtual cluster") if name else "physicalcluster"
    with session.connect() as pai:
        cells = pai.inspect(f"clusterstatus/{below}")
    if json:
        output.document(cells)
        return
    from openpai.cli import bars

    if not cells:
        output.say("No cells: nothing was promised." if name else "No cells: the platform has found no machine.")
        output.next_step(f'pai vc set {_quoted(name)} "1 node"' if name else "pai node list")
        return
    for line in bars.cell_lines(cells):
        output.say_marked_up(line)
    output.say_marked_up(f"[dim]{bars.LEGEND}[/]")


def _changed(changed: ClusterConfig, message: str, is_json: bool) -> None:
    if is_json:
        output.document(changed.document)
        return
    output.say(message)
    for problem in changed.problems:
        output.warn(problem)
    if changed.demoted:
        output.warn(f"these run on without their guarantee: {', '.join(changed.demoted)}")
    output.next_step("pai vc list", "pai vc config")


def read(file: Path) -> str:
    """Return a text file, or the input for `-`; raise Refused when it cannot be read."""
    return sys.stdin.read() if str(file) == "-" else read_text(file, "a text file")


def write(file: Path, text: str) -> None:
    """Write a text file; raise Refused when that cannot be done."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused("InvalidParametersError", f"cannot write {file}: {error.strerror}", "check the path") from error


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
