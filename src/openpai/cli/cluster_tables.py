"""Virtual clusters, nodes and cells drawn as bars of used, free and bad GPUs or CPUs.

One character stands for one GPU or CPU if the bar is long enough, and for several otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from openpai.cli import formatting
from openpai.cli.listing import listing, shown

if TYPE_CHECKING:
    from rich.table import Table

    from openpai.client.model import Accuracy, NodeView, QueuedJob, Resources, VirtualCluster

BAR_WIDTH: Final = 10
WIDE_BAR: Final = 32
USED, BORROWED, RESERVED, FREE, BAD = "█", "▒", "◧", "·", "×"
LEGEND: Final = f"{USED} used  {BORROWED} used opportunistically  {RESERVED} reserved  {FREE} free  {BAD} bad"


def bar(used: int, good: int, total: int, width: int = BAR_WIDTH) -> str:
    """Return a bar of what is used, free and bad; a part greater than zero gets at least one character."""
    if total <= 0:
        return " " * width
    bad = _cells(total - good, total, width)
    full = min(_cells(used, total, width), width - bad)
    return USED * full + FREE * (width - full - bad) + BAD * bad


def _cells(part: int, total: int, width: int) -> int:
    if part <= 0:
        return 0
    return max(1, min(width, part * width // total))


def vc_list(found: Sequence[VirtualCluster]) -> Table:
    """Return a table of virtual clusters."""
    has_gpus = any(vc.total.gpus for vc in found)
    is_lent = any(_of(each, has_gpus) for vc in found for each in (vc.borrowed, vc.lent))
    rows = []
    for vc in found:
        cpus = (vc.used.cpus, vc.guaranteed.cpus, vc.total.cpus)
        drawn = (vc.used.gpus, vc.guaranteed.gpus, vc.total.gpus) if has_gpus else cpus
        more = [_of_three(*cpus)] if has_gpus else []
        more += [str(_of(each, has_gpus)) for each in (vc.borrowed, vc.lent)] if is_lent else []
        rows.append((vc.name, bar(*drawn), _of_three(*drawn), *more, str(vc.running), str(vc.waiting), skus(vc)))
    lent = ("BORROWED", "LENT") if is_lent else ()
    numbers = ("", *(("CPUS",) if has_gpus else ()), *lent, "RUNNING", "WAITING")
    first = "GPUS" if has_gpus else "CPUS"
    return listing(("VC", first, *numbers, "SKUS"), rows, right=numbers, whole=(first,))


def queue(jobs: Sequence[QueuedJob]) -> Table:
    """Return a table of the jobs that wait in a virtual cluster."""
    unit = "GPUS" if any(job.gpus for job in jobs) else "CPUS"
    rows = [
        (
            str(job.position), job.job or "(of others)", job.priority_class or str(job.priority), str(job.rank),
            str(job.tasks), str(job.gpus if unit == "GPUS" else job.cpus), job.message,
        )
        for job in jobs
    ]  # fmt: skip
    return listing(("", "JOB", "PRIORITY", "RANK", "TASKS", unit, "WHY"), rows, right=("", "RANK", "TASKS", unit))


def _of(resources: Resources, has_gpus: bool) -> int:
    return resources.gpus if has_gpus else resources.cpus


def _of_three(used: int, good: int, total: int) -> str:
    return f"{used}/{good}/{total}"


def skus(vc: VirtualCluster) -> str:
    """Return what a virtual cluster is guaranteed, as in `24 A100, 8 V100`."""
    return ", ".join(f"{count} {name}" for name, count in vc.skus.items())


def vc_facts(vc: VirtualCluster) -> Table:
    """Return one virtual cluster, one resource per line."""
    rows = []
    for name, key, put in (("GPUs", "gpus", str), ("CPUs", "cpus", str), ("memory", "memory_mb", formatting.memory)):
        used, good, total, borrowed, lent = (
            getattr(each, key) for each in (vc.used, vc.guaranteed, vc.total, vc.borrowed, vc.lent)
        )
        rows.append((name, bar(used, good, total, WIDE_BAR // 2), *map(put, (used, good, total, borrowed, lent))))
    numbers = ("USED", "HEALTHY", "GUARANTEED", "BORROWED", "LENT")
    return listing(("RESOURCE", "", *numbers), rows, right=numbers, whole=("RESOURCE", ""))


def accuracy_sentences(found: Accuracy) -> list[str]:
    """Return how good the latest guesses about a virtual cluster were; nothing where there were none."""
    sentences = []
    if found.starts:
        share = formatting.percent(found.starts_within, found.starts)
        sentences.append(
            f"of the last {formatting.plural(found.starts, 'estimated start')}, {share} came within the range"
        )
    if found.runs:
        share, count = formatting.percent(found.runs_within_2x, found.runs), formatting.plural(found.runs, "run time")
        error = f"the median is off by {found.run_error or 0:.1f}x"
        sentences.append(f"of the last {count}, {share} were guessed within a factor of 2; {error}")
    return sentences


def node_list(nodes: Sequence[NodeView]) -> Table:
    """Return a table of nodes."""
    rows = [
        (
            node.name,
            bar(node.gpus.used, node.gpus.total - len(node.bad_devices), node.gpus.total, 8),
            f"{node.gpus.used}/{node.gpus.total}",
            f"{node.cpus.used}/{node.cpus.total}",
            f"{formatting.memory(node.memory_mb.used)}/{formatting.memory(node.memory_mb.total)}",
            str(node.tasks),
            node_state(node),
        )
        for node in nodes
    ]
    numbers = ("", "CPUS", "MEMORY", "TASKS")
    return listing(("NODE", "GPUS", *numbers, "STATE"), rows, right=numbers, whole=("GPUS",), markup=("STATE",))


def node_state(node: NodeView) -> str:
    """Return the state of a node, as Rich markup."""
    parts = []
    if not node.is_healthy:
        parts.append(f"[red]{shown(node.message) or 'not healthy'}[/]")
    if node.is_drained:
        because = f": {shown(node.drained_because)}" if node.drained_because else ""
        parts.append(f"[yellow]drained{because}[/]")
    if node.bad_devices:
        because = f": {shown(node.bad_because)}" if node.bad_because else ""
        parts.append(f"[red]bad GPUs {', '.join(map(str, node.bad_devices))}{because}[/]")
    return ", ".join(parts) or "[green]healthy[/]"


Cell = Mapping[str, Any]


def cell_lines(cells: Sequence[Cell], depth: int = 0) -> Iterator[str]:
    """Yield cells as lines, down to nodes with a character for each device, as Rich markup."""
    for cell in cells:
        children = cell.get("cellChildren") or ()
        is_upper = children and not cell.get("isNodeLevel") and _has_nodes(cell)
        parts = [f"{'  ' * depth}{shown(str(cell.get('cellAddress', '')))}", f"[dim]{cell.get('cellType', '')}[/]"]
        owners = [cell["vc"]] if cell.get("vc") else []
        if not is_upper:
            parts.append("".join(_letter(leaf) for leaf in _leaves(cell)))
            owners += _owners(children)
        parts += [f"[cyan]{shown(str(owner))}[/]" for owner in dict.fromkeys(owners)]
        if cell.get("cellHealthiness") == "Bad":
            parts.append("[red]bad[/]")
        if at := cell.get("physicalCell"):
            parts.append(f"[dim]on {shown(str(at.get('cellAddress', '')))}[/]")
        yield " ".join(parts)
        if is_upper:
            yield from cell_lines(children, depth + 1)


def _owners(cells: Sequence[Cell]) -> list[str]:
    return [owner for cell in cells for owner in (cell.get("vc"), *_owners(cell.get("cellChildren") or ())) if owner]


def _has_nodes(cell: Cell) -> bool:
    return any(child.get("isNodeLevel") or _has_nodes(child) for child in cell.get("cellChildren") or ())


def _leaves(cell: Cell) -> Iterator[Cell]:
    children = cell.get("cellChildren") or ()
    if not children:
        yield cell
    for child in children:
        yield from _leaves(child)


def _letter(leaf: Cell) -> str:
    state = leaf.get("cellState")
    if state == "Used":
        return BORROWED if leaf.get("cellPriority") == -1 else USED
    if state in ("Reserving", "Reserved"):
        return RESERVED
    return FREE if leaf.get("cellHealthiness") == "Healthy" else BAD
