#!/usr/bin/env python3
"""How many faults of nodes that fail again and again are avoided by draining them, and which good nodes are drained.

    python -m bench.lemons [--seeds 3 --days 60 --nodes 63 --lemons 3]

Each trace is replayed twice over the real scheduler: without draining, and with. A lemon fails a job after 12 hours on
average, any other node after 10,000, and 30 % of the jobs fail by their own fault. `avoided_percent` is of all faults
of the lemons: those before they were recognised are counted, too. The other scenarios count good nodes that were
drained: where 60 % of the jobs fail and 1 % of these by chance look like a node's fault, where one user makes all
failing jobs look like that, where two users have the cluster and one of them does, where one user has it, and where
it has one virtual cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import Any, Final

from bench.lemon_faults import FaultSpec, replay_faults

_FEW: Final = 20
SCENARIOS: Final[dict[str, tuple[FaultSpec, dict[str, Any]]]] = {
    "ordinary": (FaultSpec(), {}),
    "careless_users": (FaultSpec(careless=0.6, forged=0.01), {}),
    "hostile_user": (FaultSpec(forged=1.0, forgers=frozenset({"vc01-user0"})), {}),
    "two_users_one_hostile": (FaultSpec(forged=1.0, forgers=frozenset({"user0"})), {"users": 2}),
    "one_user": (FaultSpec(), {"users": 1}),
    "one_virtual_cluster": (FaultSpec(), {"vcs": 1}),
}


def measured(spec: FaultSpec, seeds: int, **cluster: Any) -> dict[str, Any]:
    """Return the figures of one scenario."""
    avoided, good, found, without, with_ = [], [], [], 0, 0
    for seed in range(1, seeds + 1):
        before, _ = replay_faults(replace(spec, seed=seed, threshold=0), **cluster)
        after, lemons = replay_faults(replace(spec, seed=seed), **cluster)
        without += before.of_lemons
        with_ += after.of_lemons
        # A lemon that hardly any job runs on avoids nothing when it is drained.
        if before.of_lemons >= _FEW:
            avoided.append(100 * (1 - after.of_lemons / before.of_lemons))
        found.append(len(lemons & after.drained.keys()))
        good.append(len(after.drained.keys() - lemons))
    return {
        "avoided_percent": round(100 * (1 - with_ / max(1, without)), 1),
        "avoided_percent_least_seed": round(min(avoided, default=0.0), 1),
        "lemon_faults_without_draining": without,
        "lemon_faults": with_,
        "lemons_drained": sum(found),
        "lemons": seeds * cluster.get("lemons", 3),
        "good_nodes_drained": sum(good),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--days", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--nodes", type=int, default=63)
    parser.add_argument("--lemons", type=int, default=3)
    parser.add_argument("--only", default="", help=f"comma list of {', '.join(SCENARIOS)}")
    args = parser.parse_args()
    size = {"days": args.days, "jobs": args.jobs, "nodes": args.nodes, "lemons": args.lemons}
    chosen = [name for name in SCENARIOS if not args.only or name in args.only.split(",")]
    found = {name: measured(SCENARIOS[name][0], args.seeds, **{**size, **SCENARIOS[name][1]}) for name in chosen}
    first = found[chosen[0]]
    json.dump(
        {
            "avoided_percent": first["avoided_percent"],
            "good_nodes_drained": sum(each["good_nodes_drained"] for each in found.values()),
            **size,
            "seeds": args.seeds,
            "scenarios": found,
        },
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
