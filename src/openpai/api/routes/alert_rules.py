"""Alert rules: list, show, change, test on the past, and revert."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Path, Request
from pydantic import Field

from openpai.alerts.rules import RULES_MAX
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.revisions import EditBody, OfName, Reason
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import alert_rules as shapes
from openpai.orchestrator.alert_rules import KIND
from openpai.ports.revisions import Edit
from openpai.wire import alert_rules as wire

router = Router("alerts")
_RULE: Final = "/api/v2/alert-rules/{name}"
TEXT_MAX: Final = 16 << 10
DAYS_MAX: Final = 31
Name = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_EXAMPLE: Final = "alert: GpuHot\nexpr: DCGM_FI_DEV_GPU_TEMP > 85\nfor: 10m\nactions: [cordon]\n"
_text: Final[Any] = Field(max_length=TEXT_MAX, description="The rule as YAML.")


class AlertRuleBody(EditBody, example={"text": _EXAMPLE, "reason": "the new rack runs hot"}):
    """The new text of an alert rule."""

    text: str = _text


class AlertTestBody(Body, example={"text": _EXAMPLE, "sinceHours": 168}):
    """A rule that is tested before it is saved."""

    text: str = _text
    sinceHours: float = Field(24, gt=0, le=DAYS_MAX * 24, description="How far back the test begins.")


@router.serves("GET /api/v2/alert-rules", "List alert rules")
async def list_alert_rules(
    request: Request, caller: Annotated[Caller, needs("alert.rules")]
) -> Reply[list[wire.AlertRule]]:
    """Return every alert rule, by name, with the changes of administrators and the problems of the last evaluation."""
    return reply([shapes.rule(view) for view in await context_of(request).services.platform.alert_rules()][:RULES_MAX])


@router.serves("GET /api/v2/alert-rules/history", "List changes of alert rules")
async def list_alert_rule_changes(
    request: Request,
    caller: Annotated[Caller, needs("alert.rules")],
    name: OfName = "",
) -> Reply[list[wire.AlertRuleChange]]:
    """Return the changes of alert rules, the newest first, each with its user, time and reason."""
    return reply([shapes.change(each) for each in await context_of(request).services.platform.alert_rule_history(name)])


@router.serves("POST /api/v2/alert-rules/test", "Test an alert rule", takes=AlertTestBody)
async def test_alert_rule(
    request: Request, caller: Annotated[Caller, needs("alert.rules")]
) -> Reply[wire.AlertRuleTest]:
    """Return when the alerts of a rule would have fired in the past, and what they would have done."""
    body = await read_body(request, AlertTestBody)
    since_ms = int(body.sinceHours * 3_600_000)
    return reply(shapes.tested(await context_of(request).services.platform.test_alert_rule(body.text, since_ms)))


@router.serves(f"GET {_RULE}", "Show an alert rule", "NoAlertRuleError")
async def get_alert_rule(
    request: Request, caller: Annotated[Caller, needs("alert.rules")], name: Name
) -> Reply[wire.AlertRule]:
    """Return an alert rule."""
    for view in await context_of(request).services.platform.alert_rules():
        if view.name == name:
            return reply(shapes.rule(view))
    raise KIND.unknown(name)


@router.serves(f"PUT {_RULE}", "Change an alert rule", "ConflictSettingError", takes=AlertRuleBody)
async def change_alert_rule(
    request: Request, caller: Annotated[Caller, needs("alert.change")], name: Name
) -> Reply[wire.AlertRule]:
    """Replace or add an alert rule; it holds from the next evaluation on."""
    body = await read_body(request, AlertRuleBody)
    about(request, target=name)
    edit = Edit(body.text, body.reason, body.revision)
    view = await context_of(request).services.platform.change_alert_rule(name, edit, caller.user)
    if view is None:
        raise KIND.unknown(name)
    return reply(shapes.rule(view))


@router.serves(f"DELETE {_RULE}", "Revert an alert rule", "NoAlertRuleError")
async def revert_alert_rule(
    request: Request,
    caller: Annotated[Caller, needs("alert.change")],
    name: Name,
    reason: Reason = "",
) -> Done:
    """Return to the bundled rule, or remove one that was added."""
    about(request, target=name)
    await context_of(request).services.platform.change_alert_rule(name, Edit(None, reason), caller.user)
    return done(f"the changes of alert rule {name} are removed")
