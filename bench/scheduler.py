#!/usr/bin/env python3
"""Drives the HiveD core in-process with a stream of gangs and prints what it took, as one JSON object.

    python bench/scheduler.py --config C --stream S

The configuration is HiveD's format. The stream is one JSON object a line: `submit` (one attempt; a gang that must wait
is dropped and counted as rejected, one that would preempt has its victims deleted and tries again), `delete`,
`node_bad`, `node_good`, and `mark`, after which counting starts. At the end every node is set bad and good again, one
at a time. Times are milliseconds unless stated. Loading the configuration took `start_s` and `start_memory_mb`.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, GangRequest, Preempt
from openpai.scheduler.config.reading import read_config


class Run:
    """One pass over a stream."""

    def __init__(self, scheduler: Hived) -> None:
        self.scheduler = scheduler
        self.alive: set[str] = set()
        self.begin()

    def begin(self) -> None:
        """Start counting afresh."""
        self.gang_ms: list[float] = []
        self.gang_ms_by_devices: dict[int, list[float]] = {}
        self.delete_ms: list[float] = []
        self.failed_ms: list[float] = []
        self.node_ms: list[float] = []
        self.gangs = self.pods = self.rejected = self.preempted = self.rounds = 0
        self.started = perf_counter()
        self.started_cpu = process_time()

    def submit(self, op: dict[str, Any]) -> None:
        """Schedule and commit one gang, sending victims away if it takes that."""
        scheduler = self.scheduler
        began = perf_counter()
        members = tuple([(count, leaves) for count, leaves in op["members"]])
        request = GangRequest(op["id"], op["vc"], members, op.get("priority", 0), op.get("leafCellType"))
        decision = scheduler.schedule(request)
        while isinstance(decision, Preempt):
            scheduler.commit(request.id)
            self.rounds += 1
            for victim in decision.victims:
                scheduler.release(victim)
                self.alive.discard(victim)
                self.preempted += 1
            decision = scheduler.schedule(request)
        self.gangs += 1
        if isinstance(decision, Bind):
            scheduler.commit(request.id)
            took = (perf_counter() - began) * 1000
            self.alive.add(request.id)
            self.pods += len(decision.spots)
            self.gang_ms.append(took)
            self.gang_ms_by_devices.setdefault(sum(c * n for c, n in members), []).append(took)
        else:
            self.rejected += 1
            self.failed_ms.append((perf_counter() - began) * 1000)

    def delete(self, gang: str) -> None:
        """Release one gang, if it is still there."""
        if gang in self.alive:
            self.alive.discard(gang)
            began = perf_counter()
            self.scheduler.release(gang)
            self.delete_ms.append((perf_counter() - began) * 1000)

    def node(self, name: str, is_healthy: bool) -> None:
        """Set the health of a node."""
        began = perf_counter()
        self.scheduler.set_node(name, is_healthy=is_healthy)
        self.node_ms.append((perf_counter() - began) * 1000)

    def play(self, lines: Iterable[str]) -> dict[str, Any]:
        """Follow the stream and return what was counted, by phase."""
        phases: dict[str, Any] = {}
        name = "fill"
        operations = [json.loads(line) for line in lines]
        gc.collect()
        gc.freeze()
        self.begin()
        for op in operations:
            kind = op["op"]
            if kind == "submit":
                self.submit(op)
            elif kind == "delete":
                self.delete(op["id"])
            elif kind in ("node_bad", "node_good"):
                self.node(op["node"], kind == "node_good")
            elif kind == "mark":
                phases[name] = self.describe()
                name = op["name"]
                self.begin()
        phases[name] = self.describe()
        return phases

    def describe(self) -> dict[str, Any]:
        """Return the counts of this phase."""
        wall_s = perf_counter() - self.started
        cpu_s = process_time() - self.started_cpu
        return {
            "wall_s": round(wall_s, 3),
            "gangs": self.gangs,
            "pods": self.pods,
            "gangs_per_s": round(self.gangs / wall_s) if wall_s else 0,
            "gangs_per_cpu_s": round(self.gangs / cpu_s) if cpu_s else 0,
            "pods_per_s": round(self.pods / wall_s) if wall_s else 0,
            "gang_ms": spread(self.gang_ms),
            "gang_p50_ms_by_devices": {
                devices: spread(times)["p50"] for devices, times in sorted(self.gang_ms_by_devices.items())
            },
            "delete_ms": spread(self.delete_ms),
            "failed_ms": spread(self.failed_ms),
            "node_event_ms": spread(self.node_ms),
            "rejected": self.rejected,
            "preempted": self.preempted,
            "preemption_rounds": self.rounds,
        }


def health(scheduler: Hived) -> dict[str, Any]:
    """Set every node bad and then good again, one at a time, while gangs run, and return the cost."""
    run = Run(scheduler)
    for is_healthy in (False, True):
        for name in scheduler.cluster.node_cells:
            run.node(name, is_healthy)
    return {"events": len(run.node_ms), "total_s": round(sum(run.node_ms) / 1000, 3), "event_ms": spread(run.node_ms)}


def spread(times: Sequence[float]) -> dict[str, float]:
    """Return median, 99th percentile, maximum and mean."""
    if not times:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0, "mean": 0.0}
    ordered = sorted(times)
    return {
        "p50": round(ordered[len(ordered) // 2], 4),
        "p99": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 4),
        "max": round(ordered[-1], 4),
        "mean": round(sum(ordered) / len(ordered), 4),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--config", required=True, type=Path)
    parser.add_argument("--stream", required=True, type=Path)
    options = parser.parse_args()
    text = options.config.read_text()
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = perf_counter()
    scheduler = Hived(Cluster(read_config(text)))
    for name in scheduler.cluster.node_cells:
        scheduler.set_node(name, is_healthy=True)
    start_s = perf_counter() - began
    memory_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before) / 1024
    with options.stream.open() as stream:
        phases = Run(scheduler).play(stream)
    phases["health_one_by_one"] = health(scheduler)
    nodes = len(scheduler.cluster.node_cells)
    devices = sum(len(chain.node_cells) * chain.shape.leaves for chain in scheduler.cluster.chains.values())
    answer = {"nodes": nodes, "devices": devices, "start_s": round(start_s, 3), "start_memory_mb": round(memory_mb, 1)}
    answer["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    json.dump({**answer, **phases}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
