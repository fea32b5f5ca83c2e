"""Requests that the API's description allows, and many that it does not, to a running platform as three users.

The administrator sends them to every operation, the others to those that they may use: `test_api_permissions` tests
that all others refuse them.

Every check is on. Where one cannot hold for an operation, that check is left out for that operation alone, and the
reason stands beside it. `SCHEMATHESIS_EXAMPLES=200` also makes up that many requests for each operation, and follows
what is made by one into others; no run is as long, or as different each time, as one by hand.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest
from fastapi.routing import APIRoute

from openpai.access.model import Role
from openpai.access.table import ACTIONS
from openpai.api.app import OPERATIONS, ROUTERS
from openpai.api.context import action_of
from openpai.system.supervision import failures

from .described_world import TOKENS, open_described

EXAMPLES: Final = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "0"))
CHECKS: Final = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "positive_data_acceptance", "missing_required_header",
    "unsupported_method", "allow_header_conformance", "use_after_free", "ensure_resource_availability", "ignored_auth",
    "object_level_authorization",
)  # fmt: skip
_VALID, _METHOD = "positive_data_acceptance", "unsupported_method"
_NAMES: Final = "the document is well-formed, but names or values in it must fit what the platform has"
_EITHER: Final = "which keys go together is described in words and by the error"
_CURSOR: Final = "a place in a list is opaque, and one that was made up is none"
_MOVED: Final = "a storage that was moved to a place that is not there is unavailable, which is 503"
_ANY: Final = "OpenPAI answers these whatever the method"

EXPECTED: Final = {
    _VALID: ("2xx", "3xx", "401", "403", "404", "409", "413", "429", "503"),
    "negative_data_rejection": ("400", "401", "403", "404", "405", "409", "413", "429", "503"),
}

# Which check does not hold for which operations, and why.
EXCEPTIONS: Final = (
    (
        _VALID,
        _NAMES,
        (
            "submitJob",
            "submitSweep",
            "checkJobFile",
            "promiseVirtualCluster",
            "previewVirtualCluster",
            "setClusterConfig",
            "createStorage",
            "changeStorage",
        ),
    ),
    (_VALID, _NAMES, ("listFiles", "downloadFile", "uploadFile", "deleteFile", "listKubernetesPods")),
    (_VALID, _NAMES, ("setGroupExtension", "setGroupValue", "createGroup", "changeGroup", "grantStorage")),
    (_VALID, "a wrong password is 400 in OpenPAI", ("logIn", "logInBrowser", "createToken")),
    (_VALID, "a key is the text of a public key", ("addSshKey",)),
    (_VALID, "only a node that is gone can be forgotten", ("forgetNode",)),
    (_VALID, _EITHER, ("changeJobs", "changeNode", "setJobRank", "changeUser", "changeMe", "testExitSpec")),
    (
        _VALID,
        "a day is one of the calendar, and a period ends after it begins",
        ("reportUse", "listAuditEntries"),
    ),
    (_VALID, "an exit spec may not take the samples of another one, unless forced", ("changeExitSpec",)),
    (
        _VALID,
        "a rule, and what it silences, are texts in a language",
        ("changeAlertRule", "testAlertRule", "silenceAlerts"),
    ),
    (
        _VALID,
        "an item has what its kind needs, its job file is one, and a run gives the parameters of that",
        ("publishMarketItem", "editMarketItem", "runMarketItem"),
    ),
    (
        _VALID,
        "the keys of a channel depend on its kind, and its server must answer",
        ("setAlertChannel", "testAlertChannel"),
    ),
    (_VALID, "a webhook of a user has a public address", ("setSubscription",)),
    (_VALID, "a change of promises is a text in a language, and there must be jobs to replay", ("whatIf",)),
    (_VALID, "what is announced ends after now, and after it begins", ("announce",)),
    (_VALID, "the body is an archive whose form is described in words", ("sendCode",)),
    (_VALID, "a span ends after it begins", ("queryMetricsOverTime", "getMetric", "getJobMetrics")),
    (_VALID, _CURSOR, ("listJobs",)),
    ("not_a_server_error", _MOVED, ("listFiles", "downloadFile", "uploadFile", "deleteFile")),
    (_METHOD, _ANY, ("getRoot", "getInfo", "getBanner")),
)

# Their bodies have hundreds of forms and are read by the code that reads those of `submitJob` and `createStorage`, to
# which the administrator sends every form. A run by hand sends all forms to all of them.
SAME_BODIES: Final = {
    "checkJobFile": "phases.coverage.enabled = false",
    "changeStorage": 'phases.coverage.generation.mode = "positive"',
}
FORMS_OF_ADMINS: Final = {**SAME_BODIES, "submitJob": "phases.coverage.enabled = false"}


def _settings(narrowed: Mapping[str, str]) -> str:
    """Return Schemathesis' configuration, with what is narrowed for some operations."""
    parts = ["[checks]", *(f"{check}.enabled = true" for check in CHECKS)]
    # A body that is too large is refused unread, whatever is in it.
    parts += (f"{check}.expected-statuses = {list(statuses)}" for check, statuses in EXPECTED.items())
    for check, reason, operations in EXCEPTIONS:
        for name in operations:
            parts += (
                f"# {reason}",
                "[[operations]]",
                f'include-operation-id = "{name}"',
                f"checks.{check}.enabled = false",
            )
    for name, setting in narrowed.items():
        parts += ("[[operations]]", f'include-operation-id = "{name}"', setting)
    return "\n".join(parts)


def _used_by(role: Role) -> list[str]:
    """Return the operations that users of a role may use, some of them only for what is theirs or granted to them."""
    found = []
    for route in (route for module in ROUTERS for route in module.router.routes):
        assert isinstance(route, APIRoute)
        action = ACTIONS.get(action_of(route) or "")
        is_related = role > Role.GUEST and action is not None and (action.is_open_to_owner or action.is_open_to_granted)
        if route.include_in_schema and (action is None or action.role <= role or is_related):
            found.append(str(route.operation_id))
    return found


# As administrator it takes a minute and a half of a processor, which several processes may share.
@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("who", ["admin", "ann", "guest"])
async def test_what_is_described_is_so(who: str, tmp_path: Path) -> None:
    narrowed = {} if EXAMPLES else SAME_BODIES if who == "admin" else FORMS_OF_ADMINS
    (tmp_path / "schemathesis.toml").write_text(_settings(narrowed))
    program = shutil.which("st", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("schemathesis is not installed; it is in the dependency group dev")
    options = ["--continue-on-failure", "--no-color", "--warnings=off", "--suppress-health-check=all"]
    options += ["--request-timeout=120"]
    options += [f"--header=Authorization: Bearer {TOKENS[who]}"] if who in TOKENS else []
    used = list(OPERATIONS) if who == "admin" else _used_by(Role.USER if who == "ann" else Role.GUEST)
    options += [f"--include-operation-id={name}" for name in used] if who != "admin" else []
    if EXAMPLES:
        options += ["--phases=examples,coverage,fuzzing,stateful", f"--max-examples={EXAMPLES}"]
    else:
        options += ["--phases=examples,coverage", "--generation-deterministic"]
        # What is wrong is refused by the same code for all users.
        options += ["--mode=positive"] if who != "admin" else []
    failed_before = failures()
    async with open_described(tmp_path) as (_, url), httpx.AsyncClient(timeout=None) as http:
        # It is written for the first request, which on a busy machine takes longer than Schemathesis waits.
        await http.get(f"{url}/openapi.json")
        process = await asyncio.create_subprocess_exec(
            program, "--config-file=schemathesis.toml", "run", f"{url}/openapi.json", *options,
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            message = (await process.communicate())[0].decode("utf-8", "replace")
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, message
    # No request breaks what the server does beside it; the captured log says how.
    assert failures() == failed_before
    assert f"Tested: {len(used)}\n" in message
