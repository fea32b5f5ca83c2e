"""Repeated submissions: the same file under the same idempotency key is the same job, another file is an error.

Answering another file with the older job would lose the new job without a word.
"""

from __future__ import annotations

import json
from typing import Any

from openpai.orchestrator.secrets import hidden
from openpai.ports.identity import Sealer
from openpai.ports.platform import Submitter
from openpai.ports.store import JobRecord
from openpai.protocol.documents import document_of
from openpai.protocol.errors import Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.reading import read_job


def check_repeated(by: Submitter, text: bytes, first: JobRecord, secrets: Sealer) -> None:
    """Raise ConflictJobError unless the file equals the one that the job `first` was submitted with."""
    first_secrets = secrets.open(first.sealed)
    spec, own_secrets = hidden(read_job(text, first_secrets if by.clone_of else None).spec)
    if _as_text(first_secrets) == _as_text(own_secrets) and _spec_text(first.spec) == _spec_text(spec):
        return
    message = f"{by.user} used this idempotency key for another file, which became job {first.full_name}"
    raise Refused("ConflictJobError", message, "give each submission a key of its own")


def _spec_text(spec: JobSpec) -> str:
    # A submission completes the list of storages, and the defaults that complete it may have changed since.
    extras = {key: value for key, value in spec.extras.items() if key != "storages"}
    return _as_text({**document_of(spec), "extras": extras})


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
