"""Exit specs: list, show, change, test and revert the causes of failures and the rules that find them."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated, Any, Final

from fastapi import Path, Request
from pydantic import Field

from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, invalid, read_body
from openpai.api.context import context_of, needs
from openpai.api.revisions import EditBody, OfName, Reason
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import exit_specs as shapes
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import ExitReport
from openpai.orchestrator.exit_specs import KIND
from openpai.orchestrator.past_failures import JOBS_MAX, Comparison, compare
from openpai.ports.platform import ExitSpecContent
from openpai.ports.revisions import Edit
from openpai.wire import exit_specs as wire

router = Router("exit specs")
_SPEC: Final = "/api/v2/exit-specs/{name}"
_TEXT_MAX: Final = 256 << 10
Name = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9_]*$")]
_EXAMPLE: Final[dict[str, Any]] = {
    "summary": "The licence server gave no licence.",
    "domain": "platform",
    "retry": "helps",
    "row": 237,
    "advice": ["Wait: the platform tries again by itself."],
    "rules": [
        {
            "role": "root",
            "where": "line",
            "patterns": ["FlexLM error: -4,"],
            "samples": ["FlexLM error: -4,132 Licensed number of users already reached"],
        }
    ],
}


class ExitSpecBody(EditBody, example={"spec": _EXAMPLE, "reason": "the new simulator needs a licence"}):
    """The new state of an exit spec."""

    spec: dict[str, Any] = Field(description="The cause and its rules, or `{disabled: true}` for a bundled one.")
    force: bool = Field(False, description="Save it although samples of other exit specs would show another cause.")


class TestBody(Body, example={"name": "licence", "spec": _EXAMPLE, "text": "FlexLM error: -4,132", "jobs": 100}):
    """An edit that is tested before it is saved, and what to test it on."""

    __test__ = False
    name: str = Field("", max_length=64, description="The exit spec; empty to test the rules in effect.")
    spec: dict[str, Any] | None = Field(None, description="The edit of it; needs `name`.")
    text: str = Field("", max_length=_TEXT_MAX, description="The end of a log.")
    exitCode: int = Field(1, ge=1, le=255, description="The exit code of the program that wrote the text.")
    jobs: int = Field(0, ge=0, le=JOBS_MAX, description="How many of the newest failed jobs to compare.")


@router.serves("GET /api/v2/exit-specs", "List exit specs")
async def list_exit_specs(
    request: Request, caller: Annotated[Caller, needs("exit_spec.list")]
) -> Reply[list[wire.ExitSpecEntry]]:
    """Return every exit spec without its rules, by name."""
    return reply([shapes.entry(view) for view in await context_of(request).services.platform.exit_specs()])


@router.serves("GET /api/v2/exit-specs/history", "List changes of exit specs")
async def list_exit_spec_changes(
    request: Request,
    caller: Annotated[Caller, needs("exit_spec.test")],
    name: OfName = "",
) -> Reply[list[wire.ExitSpecChange]]:
    """Return the changes of exit specs, the newest first, each with its user, time and reason."""
    found = await context_of(request).services.platform.exit_spec_history(name)
    return reply([shapes.change(each) for each in found])


@router.serves("POST /api/v2/exit-specs/test", "Test an exit spec", takes=TestBody)
async def test_exit_spec(
    request: Request, caller: Annotated[Caller, needs("exit_spec.test")]
) -> Reply[wire.ExitSpecTest]:
    """Return what an edit would find in a text, and which of the newest failed jobs would have another cause."""
    body = await read_body(request, TestBody)
    if body.spec is not None and not body.name:
        raise invalid("`spec` needs the `name` of its exit spec")
    services = context_of(request).services
    rules = await services.platform.edited_rules(body.name, body.spec)
    report = ExitReport(body.exitCode)
    findings = [await to_thread(diagnose, report, body.text, each) for each in rules] if body.text else []
    compared = await compare(services.jobs, services.logs, rules, body.jobs) if body.jobs else Comparison(0, (), False)
    return reply(shapes.tested(findings, compared))


@router.serves(f"GET {_SPEC}", "Show an exit spec", "NoExitSpecError")
async def get_exit_spec(
    request: Request, caller: Annotated[Caller, needs("exit_spec.list")], name: Name
) -> Reply[wire.ExitSpecDetail]:
    """Return an exit spec with its rules, and the bundled one beside it."""
    for view in await context_of(request).services.platform.exit_specs():
        if view.name == name:
            return reply(shapes.detail(view))
    raise KIND.unknown(name)


@router.serves(f"PUT {_SPEC}", "Change an exit spec", "ConflictSettingError", takes=ExitSpecBody)
async def change_exit_spec(
    request: Request, caller: Annotated[Caller, needs("exit_spec.change")], name: Name
) -> Reply[wire.ExitSpecDetail]:
    """Replace, add or disable an exit spec; it holds from the next diagnosis on. Its samples are tested first."""
    body = await read_body(request, ExitSpecBody)
    about(request, target=name)
    edit: Edit[ExitSpecContent] = Edit(body.spec, body.reason, body.revision, body.force)
    return reply(shapes.detail(await context_of(request).services.platform.change_exit_spec(name, edit, caller.user)))


@router.serves(f"DELETE {_SPEC}", "Revert an exit spec", "NoExitSpecError")
async def revert_exit_spec(
    request: Request,
    caller: Annotated[Caller, needs("exit_spec.change")],
    name: Name,
    reason: Reason = "",
) -> Done:
    """Return to the bundled exit spec, or remove one that was added."""
    about(request, target=name)
    await context_of(request).services.platform.change_exit_spec(name, Edit(None, reason), caller.user)
    return done(f"the changes of exit spec {name} are removed")
