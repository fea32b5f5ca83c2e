"""A submission that is sent again because its answer was lost: the same file is the same job, another one a mistake.

Answering with the older job to somebody who sent another file would lose theirs without a word.
"""

from __future__ import annotations

import json
from typing import Any

from openpai.orchestrator.leader import Secrets
from openpai.orchestrator.secrets import hidden
from openpai.ports.platform import Submitter
from openpai.ports.store import JobRecord
from openpai.protocol.errors import Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.reading import read_job
from openpai.protocol.writing import dump_spec


def check_repeated(by: Submitter, text: bytes, first: JobRecord, secrets: Secrets) -> None:
    """Raise ConflictJobError unless a file is the one that was submitted under its key `first`."""
    taken = secrets.open(first.sealed)
    spec = read_job(text, taken if by.clone_of else None).spec
    if _as_text(taken) == _as_text(hidden(spec)[1]) and _asked(first.spec) == _asked(hidden(spec)[0]):
        return
    message = f"{by.user} used this idempotency key for another file, which became job {first.full_name}"
    raise Refused("ConflictJobError", message, "give each submission a key of its own")


def _asked(spec: JobSpec) -> str:
    document = json.loads(dump_spec(spec))
    # The storages of a stored job are complete, and the defaults that complete them may have changed since.
    extras = {key: value for key, value in document.pop("extras", {}).items() if key != "storages"}
    return _as_text({**document, "extras": extras})


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
