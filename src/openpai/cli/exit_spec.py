"""`pai exit-spec`: the causes of failures and the rules that find them, changed while the platform runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import output, prompts, revisions, session
from openpai.cli.formatting import plural
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import Cause, ExitSpec, ExitSpecTest

COMMANDS: Final = {
    "list": ("openpai.cli.exit_spec:list_", "List exit specs: the causes of failures that the platform knows."),
    "show": ("openpai.cli.exit_spec:show", "Print an exit spec as a file that `edit --file` reads."),
    "edit": ("openpai.cli.exit_spec:edit", "Change, add or disable an exit spec, after showing what it would change."),
    "test": ("openpai.cli.exit_spec:check", "Test exit specs on a log and on past failures; nothing is changed."),
    "history": ("openpai.cli.exit_spec:history", "Show the changes of exit specs: what, when, and by which user."),
    "revert": ("openpai.cli.exit_spec:revert", "Return to the bundled exit spec, or to an earlier revision."),
}
app = group("Exit specs: causes of failures, and the rules that find them.", COMMANDS)

FILE_MAX: Final = 64 << 10
LOG_MAX: Final = 256 << 10
JOBS: Final = 100
SHOWN: Final = 20
NEW: Final = """\
summary: "What happened, in a sentence."
domain: user          # who is responsible: user, platform, infrastructure or unknown
retry: no             # whether another attempt may end better: helps, no or unknown
action: none          # exclude_node: the next attempt avoids the node
row: 237              # its row of the exit-code table: docs/exit-codes.md
advice: ["What the user can do."]
rules:
- role: root          # root, cascade (a consequence of another failure) or confirmation
  where: line         # line: in the last lines; exception: of a traceback; message: of the backend
  exits: own          # any, own (no signal from outside), failure (no signal), or a list of exit codes
  patterns: ['a pattern of RE2']
  samples: ["a line of a log that it finds"]
"""

Name = Annotated[str, argument("NAME", "Name of the exit spec, as `pai exit-spec list` shows it.")]
File = Annotated[Path | None, option("--file FILE", "The exit spec, as `pai exit-spec show` prints it.")]
Jobs = Annotated[int, option("--jobs N", "Compare the newest N failed jobs.", min=0, max=500)]


def list_(
    changed: Annotated[bool, option("--changed", "Only those that were changed or added.")] = False,
    json: output.Json = False,
) -> None:
    """List exit specs: the causes of failures that the platform knows."""
    with session.connect() as pai:
        found = [one for one in pai.exit_specs() if not changed or one.origin != "bundled"]
    empty = "No exit spec was changed or added."
    if output.is_shown(json, [one.document for one in found], found, empty, "pai exit-spec list"):
        return
    rows = [(one.name, _origin(one), one.domain, one.retry, one.summary) for one in found]
    output.table(("NAME", "ORIGIN", "DOMAIN", "RETRY", "WHAT HAPPENED"), rows, whole=("NAME", "ORIGIN"))
    for one in found:
        if one.problem:
            output.warn(f"{one.name}: this version cannot use the change, so the bundled one holds: {one.problem}")
    output.next_step(f"pai exit-spec show {found[0].name}", f"pai exit-spec test --jobs {JOBS}")


def _origin(one: ExitSpec) -> str:
    return f"{one.origin}, older" if one.is_outdated else one.origin


def show(
    name: Name,
    bundled: Annotated[bool, option("--bundled", "The bundled one, also if it was changed.")] = False,
    diff: Annotated[bool, option("--diff", "How it differs from the bundled one.")] = False,
    json: output.Json = False,
) -> None:
    """Print an exit spec as a file that `edit --file` reads."""
    with session.connect() as pai:
        found = pai.exit_spec(name)
    if output.as_json(json, found.document):
        return
    if bundled and found.bundled is None:
        raise Refused("NoExitSpecError", f"exit spec {name!r} was added here", "there is no bundled one")
    own, current = _as_text(found.bundled or {}), _as_text(found.spec)
    if diff:
        from difflib import unified_diff

        lines = unified_diff(own.splitlines(True), current.splitlines(True), f"{name}, bundled", f"{name}, in effect")
        sys.stdout.write("".join(lines))
        return
    origin, newer = "bundled" if bundled else found.origin, "the bundled one is newer than this change: see --diff"
    sys.stdout.write(revisions.heading(name, found, origin, newer))
    sys.stdout.write(own if bundled else current)


def edit(
    name: Name,
    file: File = None,
    disable: Annotated[bool, option("--disable", "Disable a bundled exit spec.")] = False,
    reason: revisions.Reason = "",
    force: Annotated[bool, option("--force", "Also if samples of other exit specs then show another cause.")] = False,
    jobs: Jobs = JOBS,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Change, add or disable an exit spec, after showing what it would change.

    Without --file an editor opens ($VISUAL or $EDITOR). The samples of each rule are tested, and the newest failed
    jobs are compared, before you are asked to confirm. It then holds from the next diagnosis on.
    """
    if disable and file is not None:
        raise InvalidParameters("--disable and --file cannot go together", "give one of them")
    with session.connect() as pai:
        revision: int | None = None
        if disable:
            spec: dict[str, Any] = {"disabled": True}
        elif file is not None:
            text = read_text(file, "an exit spec", most=FILE_MAX)
            spec, revision = _parsed(text, str(file)), revisions.revision_in(text, name)
        else:
            spec, revision = _edited(pai, name)
        if jobs and not json:
            _print_test(pai.check_exit_spec(name, spec, jobs=jobs))
        if not json:
            prompts.check_sure(f"Save exit spec {name}?", yes)
        try:
            found = pai.set_exit_spec(name, spec, reason=reason, is_forced=force, revision=revision)
        except Refused as refusal:
            if file is None and not disable:
                refusal.advice += f"; your text is kept in {revisions.kept(name, _as_text(spec))}"
            raise
    message = f"Exit spec {name} is {'disabled' if disable else 'saved'}: it holds from the next diagnosis on."
    output.done(json, found.document, message, f"pai exit-spec history {name}", f"pai exit-spec revert {name}")


def check(
    name: Annotated[str, argument("[NAME]", "Name of the exit spec; without, the rules in effect.")] = "",
    file: File = None,
    log: Annotated[Path | None, option("--log FILE", "The log of a failed program.")] = None,
    exit_code: Annotated[int, option("--exit-code N", "Exit code of that program.", min=1, max=255)] = 1,
    jobs: Jobs = 0,
    json: output.Json = False,
) -> None:
    """Test exit specs on a log and on past failures; nothing is changed.

    With --file, the exit spec is tested as it would be after `edit --file`.
    """
    if file is not None and not name:
        raise InvalidParameters("--file needs the name of the exit spec", "pai exit-spec test NAME --file FILE")
    if log is None and (file is None or not jobs):
        raise InvalidParameters("there is nothing to test", "give --log FILE, or NAME, --file FILE and --jobs N")
    text = "" if log is None else _tail(log)
    with session.connect() as pai:
        spec = None if file is None else _parsed(read_text(file, "an exit spec", most=FILE_MAX), str(file))
        found = pai.check_exit_spec(name, spec, text=text, exit_code=exit_code, jobs=jobs)
    if output.as_json(json, found.document):
        return
    if log is not None:
        output.say(f"{log}: {_named(found.after)}")
        if file is not None and _named(found.before) != _named(found.after):
            output.say(f"  today: {_named(found.before)}")
        for line in found.after.lines or (found.after.line,):
            output.say(f"  {line}")
    if jobs:
        _print_test(found)


def history(name: Annotated[str, argument("[NAME]", "Name of an exit spec.")] = "", json: output.Json = False) -> None:
    """Show the changes of exit specs: what, when, and by which user."""
    with session.connect() as pai:
        found = pai.exit_spec_history(name)
    revisions.print_history(found, "exit spec", name, "pai exit-spec", json, "pai exit-spec list")


def revert(
    name: Name,
    to: Annotated[int | None, option("--to N", "To this revision instead of the bundled one.", min=1)] = None,
    reason: revisions.Reason = "",
    json: output.Json = False,
) -> None:
    """Return to the bundled exit spec, or to an earlier revision.

    An exit spec that was added is removed.
    """
    with session.connect() as pai:
        is_again = revisions.revert(
            name,
            to,
            reason,
            noun="exit spec",
            commands="pai exit-spec",
            not_found="NoExitSpecError",
            history=pai.exit_spec_history,
            back=pai.revert_exit_spec,
            again=lambda found, why: pai.set_exit_spec(name, found.spec or {}, reason=why, is_forced=True),
        )
    result = {"name": name, "reverted": True, "revision": to}
    was = f"as it was in revision {to}" if is_again else "the bundled one, or gone if there is none"
    output.done(json, result, f"Exit spec {name} is {was}.", f"pai exit-spec history {name}")


def _as_text(spec: Mapping[str, Any]) -> str:
    import yaml

    # `no` would be read as false.
    return yaml.safe_dump(dict(spec), sort_keys=False, allow_unicode=True, width=120)


def _parsed(text: str, where: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidParameters(f"{where} is not YAML: {error}", "correct it; nothing was changed") from None
    if not isinstance(found, dict):
        raise InvalidParameters(f"{where} holds no exit spec", "`pai exit-spec show NAME` prints one to start from")
    return found


def _edited(pai: Client, name: str) -> tuple[dict[str, Any], int]:
    """Return what a person makes of an exit spec in an editor, and the revision that they began with."""
    is_new = all(one.name != name for one in pai.exit_specs())
    before = None if is_new else pai.exit_spec(name)
    text = NEW if before is None else _as_text(before.spec)
    found = revisions.edited(text, f"exit spec {name}")
    return _parsed(found, f"the edited exit spec {name}"), before.revision if before is not None else 0


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as opened:
            opened.seek(0, os.SEEK_END)
            opened.seek(max(0, opened.tell() - LOG_MAX // 4))
            return opened.read(LOG_MAX // 4).replace(b"\0", b"").decode(errors="replace")
    except OSError as error:
        raise InvalidParameters(f"{str(log)!r} cannot be read: {error.strerror}", "name a log file") from error


def _print_test(found: ExitSpecTest) -> None:
    """Print which past failures would have another cause."""
    count = plural(found.compared, "failed job")
    cut = " (older ones were left out: too many logs)" if found.is_cut else ""
    if not found.changes:
        output.say(f"No cause changes in the newest {count}{cut}.")
        return
    output.say(f"{len(found.changes)} of the newest {count} would have another cause{cut}:")
    output.table(("JOB", "TASK", "TODAY", "THEN", "LINE"), list(_rows(found)), whole=("TODAY", "THEN"))
    if len(found.changes) > SHOWN:
        output.say(f"and {len(found.changes) - SHOWN} more; all with --json")


def _rows(found: ExitSpecTest) -> Iterable[tuple[str, ...]]:
    for one in found.changes[:SHOWN]:
        yield one.job, f"{one.role}-{one.index}", _named(one.before), _named(one.after), one.after.line[:120]


def _named(cause: Cause) -> str:
    return cause.name or "nothing failed"
