"""`pai alert rules|edit|test|history|revert`: alert rules, changed while the platform runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import durations, output, prompts, session
from openpai.cli.formatting import clock_time, plural
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model.alert_rules import AlertRule, AlertRuleTest

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
File = Annotated[Path | None, option("--file FILE", "The rule, as `pai alert rules NAME` prints it.")]
Reason = Annotated[str, option("--reason TEXT", "Kept in the history.")]
Since = Annotated[str, option("--since DURATION", "How far back the test begins; 0s tests nothing.")]
Name = Annotated[str, argument("NAME", "Name of the rule, as `pai alert rules` shows it.")]


def rules(
    name: Annotated[str, argument("[NAME]", "Print this rule.")] = "",
    changed: Annotated[bool, option("--changed", "Only those that were changed or added.")] = False,
    bundled: Annotated[bool, option("--bundled", "Print the built-in rule, also if it was changed.")] = False,
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
        raise Refused("NoAlertRuleError", f"rule {name!r} was added here", "there is no built-in one")
    by = f", by {found.changed_by} at {clock_time(found.changed_at_ms)}" if found.changed_by else ""
    newer = "; the built-in rule is newer: see --bundled" if found.is_outdated else ""
    sys.stdout.write(f"# {name}: {'built in' if bundled else found.origin + by + newer}\n")
    sys.stdout.write(found.bundled if bundled else found.rule_text)
    if found.problem:
        output.warn(found.problem)


def edit(
    name: Name,
    file: File = None,
    since: Since = SINCE,
    reason: Reason = "",
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Change or add an alert rule, after showing what it would have done in the past.

    Without --file an editor opens ($VISUAL or $EDITOR). It holds from the next evaluation on. A rule with
    `enabled: false` is switched off.
    """
    with session.connect() as pai:
        text = _edited(pai, name) if file is None else read_text(file, "an alert rule", most=FILE_MAX)
        if not json and (past_s := durations.seconds(since, "--since")):
            _print_test(pai.check_alert_rule(text, past_s / 3600))
        if not json:
            prompts.check_sure(f"Save alert rule {name}?", yes)
        found = pai.set_alert_rule(name, text, reason=reason)
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
    empty = f"Alert rule {name} was never changed." if name else "No alert rule was ever changed."
    if output.is_shown(json, [one.document for one in found], found, empty, "pai alert rules"):
        return
    rows = [(str(one.revision), clock_time(one.at_ms), one.user, one.name, one.action, one.reason) for one in found]
    headings = ("REVISION", "TIME", "USER", "NAME", "CHANGE", "REASON")
    output.table(headings, rows, right=("REVISION",), whole=("REVISION", "TIME", "CHANGE"))
    output.next_step(f"pai alert revert {found[0].name} --to {found[0].revision}")


def revert(
    name: Name,
    to: Annotated[int | None, option("--to N", "To this revision instead of the built-in rule.", min=1)] = None,
    reason: Reason = "",
    json: output.Json = False,
) -> None:
    """Return to the built-in alert rule, or to an earlier revision; a rule that was added is removed."""
    with session.connect() as pai:
        text = None if to is None else _revision(pai, name, to)
        why = reason or (f"back to revision {to}" if to is not None else "")
        if text is None:
            pai.revert_alert_rule(name, why)
        else:
            pai.set_alert_rule(name, text, reason=why)
    was = f"as it was in revision {to}" if text is not None else "the built-in one, or gone if there is none"
    result = {"name": name, "reverted": True, "revision": to}
    output.done(json, result, f"Alert rule {name} is {was}.", f"pai alert history {name}")


def _revision(pai: Client, name: str, revision: int) -> str | None:
    for change in pai.alert_rule_history(name):
        if change.revision == revision:
            return change.rule_text
    known = f"`pai alert history {name}` shows its revisions"
    raise Refused("NoAlertRuleError", f"alert rule {name!r} has no revision {revision}", known)


def _edited(pai: Client, name: str) -> str:
    """Return what a person makes of a rule in an editor."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not sys.stdin.isatty():
        raise InvalidParameters("there is no editor to open", "set $EDITOR, or give --file FILE")
    known = {one.name: one.rule_text for one in pai.alert_rules()}
    text = known.get(name) or NEW.format(name=name)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "rule.yaml"
        file.write_text(text, "utf-8")
        # The editor is the caller's own.
        if subprocess.run([*shlex.split(editor), str(file)], check=False).returncode:  # noqa: S603
            raise InvalidParameters(f"{editor} ended with an error", "nothing was changed")
        edited = file.read_text("utf-8")
    if edited == text and name in known:
        raise InvalidParameters(f"alert rule {name} was not changed in the editor", "nothing was saved")
    return edited
