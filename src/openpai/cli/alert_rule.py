"""`pai alert rules|edit|test|history|revert`: alert rules, changed while the platform runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import durations, output, prompts, revisions, session
from openpai.cli.formatting import clock_time, plural
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import AlertRule, AlertRuleTest

FILE_MAX: Final = 16 << 10
SINCE: Final = "7d"
SHOWN: Final = 20
NEW: Final = """\
alert: {name}
expr: pai_node_cpu_percent > 98   # a condition: docs/alerts.md lists the values
for: 5m                           # how long it must hold
severity: warn                    # info, warn, error or fatal
annotations:
  summary: "the processors of node {{{{ labels.node_name }}}} are {{{{ value }}}} % busy"
notify: [admins]                  # channels; admins and owner get mail
actions: []                       # such as [stop, tag: low-use, cordon]
dryRun: true                      # actions are only recorded
"""
File = Annotated[
    Path | None, option("--file FILE", "The rule, as `pai alert rules NAME` prints it; - reads standard input.")
]
Since = Annotated[str, option("--since DURATION", "How far back the test begins; 0s tests nothing.")]
Name = Annotated[str, argument("NAME", "Name of the rule, as `pai alert rules` shows it.")]


def rules(
    name: Annotated[str, argument("[NAME]", "Print this rule.")] = "",
    changed: Annotated[bool, option("--changed", "Only those that were changed or added.")] = False,
    bundled: Annotated[bool, option("--bundled", "Print the bundled rule, also if it was changed.")] = False,
    json: output.Json = False,
) -> None:
    """List alert rules, or print one as a file that `edit --file` reads."""
    if name:
        _print_rule(name, bundled, json)
        return
    with session.connect() as pai:
        found = [one for one in pai.alert_rules() if not changed or one.origin != "bundled"]
    empty = "No alert rule was changed or added."
    if output.is_shown(json, [one.document for one in found], found, empty, "pai alert rules"):
        return
    rows = [(one.name, _state(one), one.severity, ", ".join(one.actions) or "-", one.expr) for one in found]
    output.table(("NAME", "STATE", "SEVERITY", "ACTIONS", "CONDITION"), rows, whole=("NAME", "STATE", "SEVERITY"))
    for one in found:
        if one.problem:
            output.warn(f"{one.name}: {one.problem}")
    output.next_step(f"pai alert rules {found[0].name}", f"pai alert test {found[0].name} --since {SINCE}")


def _state(one: AlertRule) -> str:
    state = one.origin if one.is_enabled else "off"
    return f"{state}, dry" if one.is_dry else state


def _print_rule(name: str, bundled: bool, json: bool) -> None:
    with session.connect() as pai:
        found = pai.alert_rule(name)
    if output.as_json(json, found.document):
        return
    if bundled and not found.bundled:
        raise Refused("NoAlertRuleError", f"rule {name!r} was added here", "there is no bundled one")
    origin = "bundled" if bundled else found.origin
    sys.stdout.write(revisions.heading(name, found, origin, "the bundled one is newer: see --bundled"))
    sys.stdout.write(found.bundled if bundled else found.rule_text)
    if found.problem:
        output.warn(found.problem)


def edit(
    name: Name,
    file: File = None,
    since: Since = SINCE,
    reason: revisions.Reason = "",
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Change or add an alert rule, after showing what it would have done in the past.

    Without --file an editor opens ($VISUAL or $EDITOR). It holds from the next evaluation on. A rule with
    `enabled: false` is switched off.
    """
    with session.connect() as pai:
        revision: int | None
        if file is None:
            text, revision = _edited(pai, name)
        else:
            text = read_text(file, "an alert rule", most=FILE_MAX)
            revision = revisions.revision_in(text, name)
        if not json and (past_s := durations.seconds(since, "--since")):
            _print_test(pai.check_alert_rule(text, past_s / 3600))
        if not json:
            prompts.check_sure(f"Save alert rule {name}?", yes)
        try:
            found = pai.set_alert_rule(name, text, reason=reason, revision=revision)
        except Refused as refusal:
            if file is None:
                refusal.advice += f"; your text is kept in {revisions.kept(name, text)}"
            raise
    message = f"Alert rule {name} is saved: it holds from the next evaluation on."
    output.done(json, found.document, message, f"pai alert history {name}", f"pai alert revert {name}")


def check(
    name: Annotated[str, argument("[NAME]", "Name of a rule.")] = "",
    file: File = None,
    since: Since = SINCE,
    json: output.Json = False,
) -> None:
    """Test an alert rule on the past: when it would have fired, and what it would have done. Nothing is changed."""
    if not name and file is None:
        raise InvalidParameters("there is no rule to test", "give its NAME, or --file FILE")
    past_s = durations.seconds(since, "--since")
    with session.connect() as pai:
        text = pai.alert_rule(name).rule_text if file is None else read_text(file, "an alert rule", most=FILE_MAX)
        found = pai.check_alert_rule(text, past_s / 3600)
    if output.as_json(json, found.document):
        return
    _print_test(found)
    if name:
        output.next_step(f"pai alert edit {name}")


def _print_test(found: AlertRuleTest) -> None:
    span = f"between {clock_time(found.from_ms)} and {clock_time(found.to_ms)}"
    each = f"{plural(found.evaluations, 'evaluation')}, one every {found.step_s:g} s"
    more = "; there are more" if found.is_cut else ""
    output.say(f"It would have fired {plural(len(found.alerts), 'time')} {span} ({each}{more}).")
    rows = [
        (clock_time(one.fired_at_ms), clock_time(one.resolved_at_ms) if one.resolved_at_ms else "still", one.summary)
        for one in found.alerts[-SHOWN:]
    ]
    if rows:
        output.table(("FIRED", "UNTIL", "SUMMARY"), rows, whole=("FIRED", "UNTIL"))
    done = [(clock_time(one.at_ms), one.action, one.target, one.refused) for one in found.actions[-SHOWN:]]
    if done:
        output.say(f"It would have acted {plural(len(found.actions), 'time')}:")
        output.table(("TIME", "ACTION", "OBJECT", "PREVENTED BECAUSE"), done, whole=("TIME", "ACTION"))
    if found.unknown:
        output.warn(f"no past is kept of {', '.join(found.unknown)}: there the rule could not fire")
    if found.problem:
        output.warn(found.problem)


def history(name: Annotated[str, argument("[NAME]", "Name of a rule.")] = "", json: output.Json = False) -> None:
    """Show the changes of alert rules: what, when, and by which user."""
    with session.connect() as pai:
        found = pai.alert_rule_history(name)
    revisions.print_history(found, "alert rule", name, "pai alert", json, "pai alert rules")


def revert(
    name: Name,
    to: Annotated[int | None, option("--to N", "To this revision instead of the bundled rule.", min=1)] = None,
    reason: revisions.Reason = "",
    json: output.Json = False,
) -> None:
    """Return to the bundled alert rule, or to an earlier revision; a rule that was added is removed."""
    with session.connect() as pai:
        is_again = revisions.revert(
            name,
            to,
            reason,
            noun="alert rule",
            commands="pai alert",
            not_found="NoAlertRuleError",
            history=pai.alert_rule_history,
            back=pai.revert_alert_rule,
            again=lambda found, why: pai.set_alert_rule(name, found.rule_text or "", reason=why),
        )
    was = f"as it was in revision {to}" if is_again else "the bundled one, or gone if there is none"
    result = {"name": name, "reverted": True, "revision": to}
    output.done(json, result, f"Alert rule {name} is {was}.", f"pai alert history {name}")


def _edited(pai: Client, name: str) -> tuple[str, int]:
    """Return what a person makes of a rule in an editor, and the revision that they began with."""
    known = next((one for one in pai.alert_rules() if one.name == name), None)
    text = NEW.format(name=name) if known is None else known.rule_text
    found = revisions.edited(text, f"alert rule {name}")
    return found, known.revision if known is not None else 0
