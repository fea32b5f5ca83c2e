"""Checks whether promised cells fit into free ones: the arithmetic of the safety invariant.

Cells of one chain split evenly, so a demand is servable exactly when, going from the top level down, the free cells
of each level plus the pieces of the larger ones left over are at least as many as the cells asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openpai.scheduler.config.faults import Faults
from openpai.scheduler.config.model import ChainSpec, PinnedSpec, VirtualSpec


def level_short(free: Sequence[int], need: Sequence[int], children: Sequence[int]) -> int:
    """Return the highest level at which `need` cannot be cut from `free`, 0 if all of it can.

    All three are by level, index 0 standing for level 1.
    """
    left = 0
    for level in range(len(free), 0, -1):
        left += free[level - 1] - need[level - 1]
        if left < 0:
            return level
        left *= children[level - 1]
    return 0


def free_after_pins(chain: ChainSpec, pins: Sequence[PinnedSpec]) -> list[int]:
    """Return, by level, how many cells are whole and in no larger whole cell after the pinned cells are taken."""
    free = [0] * chain.top
    free[-1] = chain.tops
    broken: set[tuple[int, int]] = set()
    for pin in sorted(pins, key=lambda pin: -pin.level):
        path = [(level, _ancestor(chain, pin, level)) for level in range(chain.top, pin.level, -1)]
        for level, index in path:
            if (level, index) not in broken:
                broken.add((level, index))
                free[level - 1] -= 1
                free[level - 2] += chain.children[level - 1]
        free[pin.level - 1] -= 1
    return free


def _ancestor(chain: ChainSpec, pin: PinnedSpec, level: int) -> int:
    return pin.index * chain.leaves(pin.level) // chain.leaves(level)


def check_promises(
    faults: Faults,
    chains: Mapping[str, ChainSpec],
    clusters: Mapping[str, VirtualSpec],
    pinned: Mapping[str, PinnedSpec],
) -> None:
    """Add a fault for each chain whose cells cannot serve all that was promised of it."""
    owner = {pin: name for name, cluster in clusters.items() for pin in cluster.pinned}
    for name, chain in chains.items():
        pins = [pin for pin in pinned.values() if pin.chain == name and pin.id in owner]
        if not _check_nested(faults, chain, pins, owner):
            continue
        need = [0] * chain.top
        asked: list[list[str]] = [[] for _ in need]
        for cluster in clusters.values():
            for quota in cluster.quota:
                if quota.chain == name and quota.number:
                    need[quota.level - 1] += quota.number
                    asked[quota.level - 1].append(f"{cluster.name} {quota.number}")
        short = level_short(free_after_pins(chain, pins), need, chain.children)
        if short:
            _add_shortage(faults, chain, short, asked, len(pins))


def _add_shortage(faults: Faults, chain: ChainSpec, level: int, asked: list[list[str]], pins: int) -> None:
    text = "; ".join(
        f"{chain.types[at - 1]}: {', '.join(asked[at - 1])}" for at in range(chain.top, level - 1, -1) if asked[at - 1]
    )
    besides = f" beside {pins} pinned" if pins else ""
    message = (
        f"chain {chain.name} has {chain.count(level)} {chain.types[level - 1]} cells in {chain.tops} top cells, "
        f"too few for what is promised{besides} ({text}); lower a cellNumber or add physical cells"
    )
    faults.add("virtualClusters", message)


def _check_nested(faults: Faults, chain: ChainSpec, pins: Sequence[PinnedSpec], owner: Mapping[str, str]) -> bool:
    for outer in pins:
        for pin in pins:
            if pin is not outer and pin.level <= outer.level and _ancestor(chain, pin, outer.level) == outer.index:
                message = (
                    f"pinned cell {pin.id!r} lies inside pinned cell {outer.id!r}, all of which {owner[outer.id]} has; "
                    "give away only one of the two"
                )
                faults.add(f"virtualClusters.{owner[pin.id]}.pinnedCells", message)
                return False
    return True
