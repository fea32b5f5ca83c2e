"""`pai vc`: virtual clusters, what they are guaranteed, and changes of that while jobs run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, formatting, output, prompts, session
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client.model import ClusterConfig, PromisePreview

COMMANDS: Final = {
    "list": ("openpai.cli.vc:list_", "List the virtual clusters: what they are guaranteed, and how much is in use."),
    "show": ("openpai.cli.vc:show", "Show one virtual cluster, one resource per line."),
    "set": ("openpai.cli.vc:set_", "Set what a virtual cluster is guaranteed; a new one is added."),
    "remove": ("openpai.cli.vc:remove", "Remove a virtual cluster that no job uses."),
    "config": ("openpai.cli.vc:config", "Show what each virtual cluster is guaranteed, and the configuration."),
    "apply": ("openpai.cli.vc:apply", "Replace all guarantees, from a file in HiveD's format or a short text."),
    "order": (
        "openpai.cli.vc:order",
        "Show or set the order of the queue of a virtual cluster: fair, fifo or shortest.",
    ),
    "queue": ("openpai.cli.vc:queue", "List the jobs that wait in a virtual cluster, in order, and why each waits."),
    "inspect": ("openpai.cli.vc:inspect", "Draw the cells of the cluster, or those of a virtual cluster."),
}
ORDERS: Final = {
    "fair": "jobs of the user with the least recent use go first",
    "fifo": "the oldest job goes first",
    "shortest": "the job with the shortest expected run goes first",
}
app = group("Virtual clusters: the shares of the cluster.", COMMANDS)

Vc = Annotated[str, argument("NAME", "Name of the virtual cluster.", completion.virtual_clusters)]

Preview = Annotated[bool, option("--preview", "Show who would gain and lose, and change nothing.")]


def list_(json: output.Json = False) -> None:
    """List the virtual clusters: what they are guaranteed, and how much is in use."""
    with session.connect() as pai:
        found = pai.virtual_clusters()
    if output.as_json(json, {vc.name: vc.document for vc in found}):
        return
    from openpai.cli import cluster_tables

    output.say(cluster_tables.vc_list(found))
    output.say_marked_up("[dim]columns: used/healthy/guaranteed; RUNNING and WAITING count jobs[/]")
    if len(found) == 1:
        output.next_step('pai vc set team-a "1 node"', "pai node list")
        return
    output.next_step(f"pai vc show {_quoted(found[0].name)}")


def show(name: Vc, json: output.Json = False) -> None:
    """Show one virtual cluster, one resource per line."""
    with session.connect() as pai:
        vc = pai.virtual_cluster(name)
        types = pai.sku_types(name) if not json and vc.skus else {}
    if output.as_json(json, {"name": name, **vc.document}):
        return
    from rich.markup import escape

    from openpai.cli import cluster_tables, job_tables

    output.say_marked_up(
        f"[bold]{escape(vc.name)}[/]: {formatting.plural(vc.running, 'job')} running, {vc.waiting} waiting"
    )
    output.say(cluster_tables.vc_facts(vc))
    if lent := job_tables.lent_text([(name, of.gpus, of.cpus) for name, of in vc.lent_to.items()]):
        output.say_marked_up(f"lent: {lent}")
    if vc.is_interruptible:
        output.say("Its jobs are interruptible, unless their job files say otherwise.")
    if vc.moves.jobs:
        lost = f"{vc.moves.gpu_hours_lost:.2f} GPU hours of their work were lost"
        output.say(f"{formatting.plural(vc.moves.jobs, 'job')} moved to make whole nodes for others; {lost}")
    for sentence in cluster_tables.accuracy_sentences(vc.accuracy):
        output.say(sentence)
    for kind, count in vc.skus.items():
        sku = types.get(kind) or {}
        each = (
            (
                formatting.plural(sku["cpu"], "CPU"),
                formatting.memory(sku["memory"]),
                formatting.plural(sku["gpu"], "GPU"),
            )
            if sku
            else ()
        )
        output.say(f"SKU {kind}: {count}" + (f", each {', '.join(each)}" if each else ""))
    if not vc.skus:
        output.say("It is guaranteed nothing: only opportunistic jobs (jobPriorityClass: oppo) can run in it.")
        output.next_step(f'pai vc set {_quoted(name)} "1 node"')
        return
    output.next_step(f"pai job list --all --vc {_quoted(name)}", f"pai vc inspect {_quoted(name)}")


def set_(
    name: Vc,
    promise: Annotated[str, argument("AMOUNT", 'Such as "3 nodes", "8 GPUs of A100" or "8 GPUs of A100 + 2 nodes".')],
    preview: Preview = False,
    json: output.Json = False,
) -> None:
    """Set what a virtual cluster is guaranteed; a new one is added.

    It takes effect at once. No running job is stopped for it.
    """
    with session.connect() as pai:
        if preview:
            _previewed(pai.preview_promise(name, promise), f'pai vc set {_quoted(name)} "{promise}"', json)
            return
        changed = pai.promise(name, promise)
    _changed(changed, f"{name} is guaranteed {promise}.", json)


def order(
    name: Vc,
    chosen: Annotated[str | None, argument("ORDER", "fair, fifo or shortest.", show_default=False)] = None,
    interruptible: Annotated[
        bool | None,
        option(
            "--interruptible/--not-interruptible",
            "Whether its jobs may borrow idle resources of others and be preempted; a job file can override it.",
            show_default=False,
        ),
    ] = None,
    move_jobs: Annotated[
        bool | None,
        option(
            "--move-jobs/--no-move-jobs",
            "Whether its interruptible jobs may be moved, to make whole nodes for others of its jobs.",
            show_default=False,
        ),
    ] = None,
    hang_minutes: Annotated[
        float | None,
        option(
            "--hang-minutes MINUTES",
            "After how many quiet minutes its jobs are reported as hanging, if their job files do not say; 0: never.",
            show_default=False,
            min=0.0,
        ),
    ] = None,
    json: output.Json = False,
) -> None:
    """Show or set the order of jobs of equal priority in a virtual cluster, and defaults for its jobs.

    fair: the user with the least recent use first. fifo: the oldest job first. shortest: the job with the shortest
    expected run first, judged by jobs like it; a job that has waited long goes before these.
    """
    if chosen is not None and chosen not in ORDERS:
        raise InvalidParameters(f"{chosen!r} is not an order", f"choose from {', '.join(ORDERS)}")
    with session.connect() as pai:
        found = pai.orders()
        is_changed = (chosen, interruptible, move_jobs, hang_minutes) != (None, None, None, None)
        if is_changed:
            orders = {**found["orders"], **({name: chosen} if chosen is not None else {})}
            allowed = None if interruptible is None else {**found.get("interruptible", {}), name: interruptible}
            moves = None if move_jobs is None else {**found.get("moveJobs", {}), name: move_jobs}
            hangs = None if hang_minutes is None else {**found.get("hangMinutes", {}), name: hang_minutes}
            found = pai.set_orders(orders, found["version"], interruptible=allowed, move_jobs=moves, hang_minutes=hangs)
        vc = pai.virtual_cluster(name)
    # A server that answers before it has read the change would show the old one.
    own = chosen or vc.order
    may = vc.is_interruptible if interruptible is None else interruptible
    moving = vc.moves_jobs if move_jobs is None else move_jobs
    quiet = found.get("hangMinutes", {}).get(name)
    document = {
        "name": name, "order": own, "interruptible": may, "moveJobs": moving, "hangMinutes": quiet,
        "version": found["version"],
    }  # fmt: skip
    if output.as_json(json, document):
        return
    output.say(f"{name}: {own}, {ORDERS[own]}.")
    if may:
        output.say(
            "Its jobs may borrow idle resources of others and be preempted, unless their job files say otherwise."
        )
    if moving:
        output.say("Its interruptible jobs may be moved to make whole nodes for others of its jobs.")
    if quiet:
        output.say(f"Its jobs count as hanging after {quiet:g} quiet minutes, unless their job files say otherwise.")
    if not is_changed:
        output.next_step(f"pai vc order {_quoted(name)} {'fair' if own == 'shortest' else 'shortest'}")


def queue(
    name: Vc,
    limit: Annotated[int, option("--limit N", "How many jobs at most, from the front.", min=1, max=500)] = 50,
    json: output.Json = False,
) -> None:
    """List the jobs that wait in a virtual cluster, in order, and why each waits.

    A job that fits may start before jobs ahead of it that do not. Managers and administrators put a job elsewhere with
    `pai job move JOB --before OTHER`.
    """
    with session.connect() as pai:
        found = pai.queue(name, limit)
    if output.as_json(json, found.document):
        return
    if not found.jobs:
        output.say(f"No job waits in {name}.")
        output.next_step(f"pai job list --all --vc {_quoted(name)}")
        return
    from openpai.cli import cluster_tables

    output.say(cluster_tables.queue(found.jobs))
    output.aside(f"{formatting.plural(found.total, 'job')} waiting; order {found.order}: {ORDERS[found.order]}")
    movable = [job.job for job in found.jobs if job.may_move and job.job]
    steps = [f"pai job move {movable[-1]} --before {movable[0]}"] if len(movable) > 1 else []
    output.next_step(*steps, f"pai job why {found.jobs[0].job or 'JOB'}")


def remove(name: Vc, preview: Preview = False, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove a virtual cluster that no job uses."""
    if preview:
        with session.connect() as pai:
            _previewed(pai.preview_promise(name, ""), f"pai vc remove {_quoted(name)}", json)
        return
    prompts.check_sure(f"Remove virtual cluster {name}, and its guarantee?", yes)
    with session.connect() as pai:
        changed = pai.remove_virtual_cluster(name)
    _changed(changed, f"{name} is removed; what it was guaranteed goes to default.", json)


def config(
    file: Annotated[Path | None, option("-o --output FILE", "File to write the configuration to.")] = None,
    json: output.Json = False,
) -> None:
    """Show what each virtual cluster is guaranteed, and the configuration."""
    with session.connect() as pai:
        found = pai.cluster_config()
    if file is not None:
        write(file, found.hived)
    if output.as_json(json, found.document):
        return
    for problem in found.problems:
        output.warn(problem)
    promises = "a whole configuration" if found.promises is None else found.promises or "everything to default"
    output.aside(f"version {found.version}; guaranteed: {promises}")
    if file is None:
        sys.stdout.write(found.hived)
        return
    output.say(f"Written to {file}.")
    output.next_step(f"pai vc apply {file}")


def apply(
    file: Annotated[Path | None, argument("FILE", "Configuration in HiveD's format; - reads standard input.")] = None,
    promises: Annotated[
        str | None, option("--promises TEXT", 'Instead of a file: "team-a: 3 nodes, b: 8 GPUs".')
    ] = None,
    version: Annotated[
        int | None, option("--if-version N", "Refuse if the version is another one by now.", min=0)
    ] = None,
    json: output.Json = False,
) -> None:
    """Replace all guarantees, from a file in HiveD's format or a short text.

    It takes effect at once, or is refused with every fault. No running job is stopped for it.
    """
    if (file is None) == (promises is None):
        raise InvalidParameters("give either a file or --promises", "see pai vc apply --help")
    hived = None if file is None else read_text(file, "a text file")
    with session.connect() as pai:
        changed = pai.configure(promises=promises, hived=hived, version=version)
    _changed(changed, "The configuration was replaced.", json)


def inspect(
    name: Annotated[
        str | None, argument("NAME", "A virtual cluster [default: the physical cluster].", completion.virtual_clusters)
    ] = None,
    json: output.Json = False,
) -> None:
    """Draw the cells of the cluster, or those of a virtual cluster.

    With --json the documents are those of HiveD's inspect API.
    """
    from openpai.client.calls.naming import segment

    below = "virtualclusters/" + segment(name, "a virtual cluster") if name else "physicalcluster"
    with session.connect() as pai:
        cells = pai.inspect(f"clusterstatus/{below}")
    if output.as_json(json, cells):
        return
    from openpai.cli import cluster_tables

    if not cells:
        output.say(
            "No cells: the virtual cluster is guaranteed nothing." if name else "No cells: the platform has no nodes."
        )
        output.next_step(f'pai vc set {_quoted(name)} "1 node"' if name else "pai node list")
        return
    for line in cluster_tables.cell_lines(cells):
        output.say_marked_up(line)
    output.say_marked_up(f"[dim]{cluster_tables.LEGEND}[/]")


def _changed(changed: ClusterConfig, message: str, is_json: bool) -> None:
    if output.as_json(is_json, changed.document):
        return
    output.say(message)
    for problem in changed.problems:
        output.warn(problem)
    if changed.demoted:
        output.warn(f"these jobs keep running without a guarantee: {', '.join(changed.demoted)}")
    output.next_step("pai vc list", "pai vc config")


def _previewed(found: PromisePreview, command: str, is_json: bool) -> None:
    if output.as_json(is_json, found.document):
        return
    unit = "GPUs" if any(share.before.gpus or share.after.gpus for share in found.shares) else "CPUs"
    rows = []
    for share in found.shares:
        before, after = (of.gpus if unit == "GPUs" else of.cpus for of in (share.before, share.after))
        rows.append((share.name, str(before), str(after), f"{after - before:+d}" if after != before else ""))
    output.table(["NAME", f"{unit} NOW", "THEN", "CHANGE"], rows, right=[f"{unit} NOW", "THEN", "CHANGE"])
    for problem in found.problems:
        output.warn(problem)
    if found.demoted:
        output.warn(f"these jobs would run on without a guarantee: {', '.join(found.demoted)}")
    else:
        output.say("No running job would lose its guarantee.")
    output.say("Nothing was changed.")
    output.next_step(command)


def write(file: Path, text: str) -> None:
    """Write a text file; raise Refused when that cannot be done."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidParameters(f"cannot write {file}: {error.strerror}", "check the path") from error


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
