"""The common part of documents of things that administrators edit."""

from __future__ import annotations

from typing import Any

from openpai.ports.revisions import Revised, Revision
from openpai.wire import revisions as wire


def revised(found: Revised[Any]) -> wire.Revised:
    """Return the last change of something."""
    return {
        "changedBy": found.changed_by,
        "changedTime": found.changed_at_ms,
        "outdated": found.is_outdated,
        "revision": found.revision,
    }


def revision(found: Revision[Any]) -> wire.Revision:
    """Return one change."""
    return {
        "revision": found.revision,
        "name": found.name,
        "time": found.at_ms,
        "user": found.by,
        "reason": found.reason,
    }
