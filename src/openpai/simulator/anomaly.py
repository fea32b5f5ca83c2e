"""Measures the sharing anomaly: a team waits longer in a shared cluster than in a private cluster of the same size.

The same trace is replayed four ways: each virtual cluster on its own machines; all together with quotas in numbers of
GPUs, packed onto the fullest nodes or spread over the emptiest; and all together under HiveD. A quota keeps the number
of GPUs a team may use, but not that they are near each other; a cell keeps both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from openpai.scheduler.config.model import ChainSpec, HivedConfig, QuotaSpec, VirtualSpec
from openpai.simulator.cluster import generated, quotas_of
from openpai.simulator.replay import Rules
from openpai.simulator.report import Spread, spread_of
from openpai.simulator.simulate import simulate
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.trace import Trace

WAYS: Final = ("private", "quota", "quota-spread", "hived")
SHARE_NOTICED: Final = 0.1
WAIT_NOTICED_S: Final = 300.0
"""Waiting this much longer, and at least this long, counts as an anomaly; less is within chance."""

DEFAULT: Final = SyntheticSpec(jobs=6_000, days=6.0, load=0.8, apart=3.0, vcs=4)
DEFAULT_NODES: Final = 48
DEFAULT_SEEDS: Final = 5


@dataclass(frozen=True, slots=True)
class VcAnomaly:
    """How long the jobs of one virtual cluster waited, by way of sharing."""

    name: str
    gpus: int
    jobs: int
    delay_s: dict[str, Spread]

    def extra_s(self, way: str) -> float:
        """Return how much longer its jobs waited on average than in its private cluster."""
        return self.delay_s[way].mean - self.delay_s["private"].mean

    def is_anomaly(self, way: str) -> bool:
        """Return whether it is noticeably worse off than in its private cluster."""
        return self.extra_s(way) > max(WAIT_NOTICED_S, SHARE_NOTICED * self.delay_s["private"].mean)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """The findings of the experiment."""

    gpus: int
    traces: int
    vcs: tuple[VcAnomaly, ...]
    utilisation: dict[str, float]
    """The share of all GPUs in use, by way of sharing."""

    def anomalies(self, way: str) -> tuple[str, ...]:
        """Return the virtual clusters that are worse off than in their private clusters."""
        return tuple([vc.name for vc in self.vcs if vc.is_anomaly(way)])

    def as_dict(self) -> dict[str, Any]:
        """Return the findings as data for JSON."""
        found = [
            {
                "name": vc.name,
                "gpus": vc.gpus,
                "jobs": vc.jobs,
                "delay_s": {way: asdict(spread) for way, spread in vc.delay_s.items()},
                "extra_mean_s": {way: round(vc.extra_s(way), 3) for way in WAYS[1:]},
            }
            for vc in self.vcs
        ]
        return {
            "gpus": self.gpus,
            "traces": self.traces,
            "vcs": found,
            "utilisation": self.utilisation,
            "anomalies": {way: list(self.anomalies(way)) for way in WAYS[1:]},
        }


def default_case(spec: SyntheticSpec = DEFAULT, seeds: int = DEFAULT_SEEDS) -> tuple[HivedConfig, list[Trace]]:
    """Return a cluster that virtual clusters share equally, and traces in which every third needs whole nodes."""
    config = generated(DEFAULT_NODES, dict.fromkeys(spec.shares(), 1.0))
    quotas = quotas_of(config)
    return config, [generate(replace(spec, seed=spec.seed + at), quotas) for at in range(seeds)]


def find_anomaly(config: HivedConfig, traces: Sequence[Trace], rules: Rules | None = None) -> Anomaly:
    """Replay every trace in every way and return how long each virtual cluster waits in each way."""
    quotas = {name: gpus for name, gpus in quotas_of(config).items() if gpus}
    delays: dict[tuple[str, str], list[int]] = {(name, way): [] for name in quotas for way in WAYS}
    used: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    gpus = 0
    for trace in traces:
        for name in quotas:
            _collect(delays, "private", config, trace.of(name), rules, private_to=name)
        for way in WAYS[1:]:
            share, gpus = _collect(delays, way, config, trace, rules)
            used[way].append(share)
    vcs = [
        VcAnomaly(name, quota, len(delays[name, "hived"]), {way: spread_of(delays[name, way]) for way in WAYS})
        for name, quota in quotas.items()
    ]
    utilisation = {way: round(sum(shares) / len(shares), 4) for way, shares in used.items()}
    return Anomaly(gpus, len(traces), tuple(vcs), utilisation)


def _collect(
    delays: dict[tuple[str, str], list[int]],
    way: str,
    config: HivedConfig,
    trace: Trace,
    rules: Rules | None,
    private_to: str | None = None,
) -> tuple[float, int]:
    """Replay in one way, note the delays, and return the utilisation and the number of GPUs."""
    if not trace.jobs:
        return 0.0, 0
    own = config if private_to is None else private_config(config, private_to)
    # Quotas know no users, so the order within a team may not depend on them.
    scheduler = "hived-by-age" if way in ("private", "hived") else way
    report = simulate(own, trace, way, scheduler, rules=rules)
    for name, found in report.vc_delays_ms.items():
        if (name, way) in delays:
            delays[name, way] += found
    return report.total.utilisation, report.total.gpus


def private_config(config: HivedConfig, name: str) -> HivedConfig:
    """Return a configuration that has only the cells promised to `name`, all of them promised to it."""
    chains: dict[str, ChainSpec] = {}
    quota: list[QuotaSpec] = []
    counts: dict[tuple[str, int], int] = {}
    for piece in config.virtual_clusters[name].quota:
        chain = config.chains[piece.chain]
        level = min(piece.level, chain.node_level)
        counts[piece.chain, level] = counts.get((piece.chain, level), 0) + piece.number * (
            chain.leaves(piece.level) // chain.leaves(level)
        )
    for (origin, level), number in counts.items():
        if number:
            chain = config.chains[origin]
            own = chain.name if level == chain.node_level else f"{chain.name}-{chain.types[level - 1]}"
            chains[own] = _of_nodes(chain, own, level, number)
            quota.append(QuotaSpec(own, level, number))
    return HivedConfig(chains, {name: VirtualSpec(name, tuple(quota))}, {}, config.skus)


def _of_nodes(chain: ChainSpec, name: str, level: int, number: int) -> ChainSpec:
    """Return a chain of `number` nodes, each of them a cell of that level."""
    nodes = tuple([f"{name}-{at:05d}" for at in range(number)])
    inside = tuple([row[: chain.leaves(level) // chain.leaves(at + 1)] for at, row in enumerate(chain.inner[0])])
    return replace(
        chain,
        name=name,
        types=chain.types[:level],
        children=chain.children[:level],
        node_level=level,
        tops=number,
        nodes=nodes,
        devices=(chain.devices[0][: chain.leaves(level)],) * number,
        inner=(inside[: level - 1],) * number,
        upper=(nodes,),
    )
