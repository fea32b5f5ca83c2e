"""Operations on nodes."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, nodes

OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/nodes": Operation("listNodes", "List nodes", list[nodes.Node]),
    "GET /api/v2/nodes/{name}": Operation("getNode", "Show a node and the jobs on it", nodes.NodeDetail, "NoNodeError"),
    "PUT /api/v2/nodes/{name}": Operation(
        "changeNode",
        "Drain a node or mark its bad GPUs",
        nodes.Node,
        "NoNodeError",
        request={"drained": True, "reason": "a fan is broken"},
    ),
    "DELETE /api/v2/nodes/{name}": Operation(
        "forgetNode", "Forget a node", answers.StatusMessage, "NoNodeError ConflictSettingError"
    ),
}
