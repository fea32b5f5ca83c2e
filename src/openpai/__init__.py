"""openpai: many teams share one GPU cluster as if each had its own."""

import json as _json
import os as _os
import time as _time

__all__ = ["progress"]

_PAUSE_S = 0.5
_reported_at = [-_PAUSE_S]


def progress(step, total=None, metrics=None):  # type: ignore[no-untyped-def]
    """Report how far this task is: its `step`, of `total`, with `metrics` as a mapping of names to numbers.

    For programs inside a task. Without a platform it does nothing, and it never raises or waits: a report that cannot
    be written is dropped, and so are those within half a second of another, except the last step.
    """
    path = _os.environ.get("PAI_PROGRESS_FILE")
    now_s = _time.monotonic()
    if not path or (now_s - _reported_at[0] < _PAUSE_S and step != total):
        return
    _reported_at[0] = now_s
    try:
        report = {
            "step": step,
            "total": total,
            "metrics": {name: float(value) for name, value in (metrics or {}).items()},
        }
        line = (_json.dumps(report) + "\n").encode()
        file = _os.open(path, _os.O_WRONLY | _os.O_CREAT, 0o644)
        try:
            _os.write(file, line)
            _os.ftruncate(file, len(line))
        finally:
            _os.close(file)
    except (OSError, ValueError, TypeError, AttributeError):
        pass
