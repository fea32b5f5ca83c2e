"""Runs one replay from its configuration to its report, over one of the schedulers to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from time import perf_counter
from typing import Final

from openpai.protocol.errors import InvalidParameters, Refused
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.interface import Scheduler
from openpai.scheduler.model import Accuracy, Order
from openpai.scheduler.queue.scheduler import PATIENCE_MS, HivedScheduler
from openpai.simulator.cluster import nodes_of, quotas_of
from openpai.simulator.quota import QuotaScheduler
from openpai.simulator.replay import Replay, Rules
from openpai.simulator.report import Report, report_of
from openpai.simulator.tally import Tally
from openpai.simulator.trace import Trace
from openpai.system.garbage import no_collections


def _hived(config: HivedConfig) -> HivedScheduler:
    scheduler = HivedScheduler(config)
    orders = {name: spec.order for name, spec in config.virtual_clusters.items() if spec.order is not None}
    scheduler.set_orders(orders)
    return scheduler


def _by_age(config: HivedConfig) -> HivedScheduler:
    scheduler = HivedScheduler(config)
    scheduler.set_fairness(None)
    return scheduler


def _in_order(order: Order, patience_ms: int = PATIENCE_MS) -> Callable[[HivedConfig], Scheduler]:
    def made(config: HivedConfig) -> HivedScheduler:
        scheduler = HivedScheduler(config, patience_ms)
        scheduler.set_orders(dict.fromkeys(config.virtual_clusters, order))
        return scheduler

    return made


NEVER_MS: Final = 1 << 60

SCHEDULERS: Final[dict[str, Callable[[HivedConfig], Scheduler]]] = {
    "hived": _hived,
    "hived-by-age": _by_age,
    "hived-fifo": _in_order(Order.FIFO),
    "hived-shortest": _in_order(Order.SHORTEST),
    "hived-first-fit": _in_order(Order.FIFO, patience_ms=NEVER_MS),
    "quota": lambda config: QuotaScheduler(quotas_of(config)),
    "first-fit": lambda config: QuotaScheduler(quotas_of(config), patience_ms=None),
    "quota-spread": lambda config: QuotaScheduler(quotas_of(config), is_spreading=True),
}
"""By name: HiveD with the orders of the configuration, or with one order for all; quotas on the fullest or on the
emptiest nodes.

`first-fit` is quotas where the oldest job that fits always starts, however long a larger one has waited, and
`hived-first-fit` the same with cells: none are kept for a job that waits, and no node is left to drain.
"""


def simulate(
    config: HivedConfig,
    trace: Trace,
    name: str,
    scheduler: str = "hived",
    *,
    rules: Rules | None = None,
    absent: Collection[str] = (),
    notes: tuple[str, ...] = (),
    window_ms: int = 0,
) -> Report:
    """Replay the trace and return the report. Nodes that are `absent` are in the configuration but do not exist.

    Averages are over `window_ms` from the first submission on; without one, over the time of the trace.
    """
    if scheduler not in SCHEDULERS:
        raise InvalidParameters(f"no scheduler is called {scheduler!r}", f"use {', '.join(SCHEDULERS)}")
    if not trace.jobs:
        raise InvalidParameters("the trace has no job that needs GPUs", "check its format")
    nodes = tuple([node for node in nodes_of(config) if node.name not in absent])
    largest = max(node.gpus for node in nodes)
    if not largest:
        raise InvalidParameters(f"{name}: the cluster has no GPUs", "replay on one that has some")
    deciding = SCHEDULERS[scheduler](config)
    for node in nodes:
        deciding.set_node(node)
    if rules is not None and rules.moves_jobs and isinstance(deciding, HivedScheduler):
        deciding.set_movable(config.virtual_clusters)
    tally = Tally(trace, nodes, quotas_of(config), window_ms)
    replay = Replay(deciding, trace, tally, largest, rules_of(config, rules or Rules()))
    began = perf_counter()
    with no_collections():
        replay.play()
    wall_s = round(perf_counter() - began, 3)
    guesses = deciding.guesses.of_all() if isinstance(deciding, HivedScheduler) else Accuracy()
    return report_of(name, scheduler, tally, notes=notes, wall_s=wall_s, decisions=replay.decisions, accuracy=guesses)


def rules_of(config: HivedConfig, rules: Rules) -> Rules:
    """Return the rules with the virtual clusters whose jobs may be interrupted by the configuration."""
    clusters = config.virtual_clusters.values()
    return replace(rules, interruptible=frozenset(spec.name for spec in clusters if spec.is_interruptible))


def matched(trace: Trace, config: HivedConfig) -> Trace:
    """Return the trace with its virtual clusters renamed to the configuration's: most GPU time to most GPUs.

    Where the trace has more of them, the rest go in turn to where most GPUs are left per GPU hour asked for.
    """
    quotas = quotas_of(config)
    if not quotas:
        raise Refused("NoVirtualClusterError", "the configuration has no virtual clusters", "add some, or --nodes")
    demand: Counter[str] = Counter()
    wanted = trace.demand()
    names: dict[str, str] = {}
    for name in trace.virtual_clusters:
        names[name] = min(quotas, key=lambda own: ((demand[own] + wanted[name]) / max(1, quotas[own]), own))
        demand[names[name]] += wanted[name]
    return trace.renamed(names)
