"""What a task reads about its end before it gets SIGTERM: one line of JSON in the file PAI_PREEMPTION_NOTICE names."""

from __future__ import annotations

import json
from typing import Final

NOTICE_FILE: Final = "notice.json"
NOTICE_VARIABLE: Final = "PAI_PREEMPTION_NOTICE"
CHECKPOINT_VARIABLE: Final = "PAI_CHECKPOINT_DIR"
NO_CHECKPOINTS_VARIABLE: Final = "PAI_CHECKPOINT_MESSAGE"
"""Says why the variable above is not set, where it is not."""
MESSAGE_MAX: Final = 1000


def notice_text(reason: str, message: str, grace_s: float, now_ms: int) -> str:
    """Return the content of the file: why the task has to end, and when it is killed, in seconds since the epoch."""
    body = {
        "reason": reason,
        "message": message[:MESSAGE_MAX],
        "deadline": round(now_ms / 1000 + grace_s, 3),
        "graceSeconds": grace_s,
    }
    return f"{json.dumps(body)}\n"
