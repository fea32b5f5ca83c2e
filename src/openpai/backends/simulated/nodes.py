"""Makes virtual nodes of any number and size."""

from __future__ import annotations

from openpai.ports.backend import NodeSeen


def virtual_nodes(
    count: int, gpus_per_node: int, *, cpus: int = 64, memory_mb: int = 512 * 1024, gpu_model: str = "Simulated GPU"
) -> tuple[NodeSeen, ...]:
    """Return `count` equal nodes with names and addresses of their own."""
    width = max(2, len(str(count)))
    return tuple(
        NodeSeen(
            f"node-{number:0{width}}",
            f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            cpus,
            memory_mb,
            gpus_per_node,
            gpu_model=gpu_model if gpus_per_node else "",
        )
        for number in range(1, count + 1)
    )
