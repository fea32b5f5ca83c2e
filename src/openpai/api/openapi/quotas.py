"""Operations on quotas."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, quotas

_Q: Final = "/api/v2/quotas"
_SET: Final = {"virtualCluster": "vision", "user": "ann", "gpusRunning": 8}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_Q}": Operation("listQuotas", "List quotas", list[quotas.Quota]),
    f"GET {_Q}/me": Operation("listMyQuotas", "List one's own quotas", list[quotas.OwnQuota]),
    f"PUT {_Q}": Operation(
        "setQuota", "Set a quota", answers.StatusMessage, "NoUserError NoVirtualClusterError", request=_SET
    ),
    f"DELETE {_Q}": Operation("deleteQuota", "Remove a quota", answers.StatusMessage, "NoQuotaError"),
}
