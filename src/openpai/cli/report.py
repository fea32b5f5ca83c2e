"""`pai report`: use in hours, as a table, as JSON or as CSV."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import output, session
from openpai.cli.formatting import plural, split
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client.model import UsageTotal, Use

WORDS: Final = ("user", "group", "vc", "day")


def report(
    by: Annotated[list[str] | None, option("--by KEYS", "One or several of user, group, vc and day.")] = None,
    from_: Annotated[
        str | None, option("--from DAY", "First day, such as 2026-01-31 (UTC) [default: first of the month].")
    ] = None,
    to: Annotated[str | None, option("--to DAY", "Day after the last one [default: now].")] = None,
    csv: Annotated[Path | None, option("--csv FILE", "Write CSV to a file; - is standard output.")] = None,
    weekly: Annotated[
        bool, option("--weekly", "Print the message about the last week that `pai alert subscribe weekly` sends.")
    ] = False,
    json: output.Json = False,
) -> None:
    """Report use in hours of GPUs, CPUs and memory.

    Your own use; managers see that of their virtual clusters, administrators that of all users.
    """
    if weekly:
        _weekly(json, bool(by or from_ or to or csv))
        return
    words = tuple(dict.fromkeys(split(by))) or ("user",)
    if strange := [word for word in words if word not in WORDS]:
        raise InvalidParameters(f"--by: {strange[0]!r} is not a key", f"choose from {', '.join(WORDS)}")
    for name, day in (("--from", from_), ("--to", to)):
        if day is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d|\d{1,15}", day):
            raise InvalidParameters(f"{name}: {day!r} is not a day", "write it like 2026-01-31")
    if from_ is not None and from_ == to:
        message = f"the time from {from_} to {to} is empty: --to is not included"
        raise InvalidParameters(message, "set --to to the day after")
    if json and str(csv) == "-":
        message = "--csv - and --json both write to standard output"
        raise InvalidParameters(message, "give one of them, or a file for --csv")
    with session.connect() as pai:
        if csv is not None:
            _save(csv, pai.report_csv(by=words, from_=from_, to=to), json)
            return
        found = pai.report(by=words, from_=from_, to=to)
    steps = ("pai report --from DAY", "pai job list --all")
    if output.is_shown(json, found.document, found.rows, "Nothing was used in that time.", *steps):
        return
    is_lent = bool(found.total.gpu_hours_borrowed or found.total.gpu_hours_lent)
    is_wasted = bool(found.total.gpu_hours_wasted)
    rows = [(*(_cell(row, word) for word in words), *_sums(row, is_lent, is_wasted)) for row in found.rows]
    rows.append(("total", *("" for _ in words[1:]), *_sums(found.total, is_lent, is_wasted)))
    numbers = ["GPU-HOURS", "CPU-HOURS", "GB-HOURS", "RUNS", *(["BORROWED", "LENT"] if is_lent else [])]
    numbers += ["WASTED"] if is_wasted else []
    heads = ["DAY (UTC)" if word == "day" else word.upper() for word in words]
    output.table([*heads, *numbers], rows, right=numbers, whole=["DAY (UTC)"] if "day" in words else [])
    if is_lent:
        output.say_marked_up("[dim]BORROWED and LENT: GPU hours without a guarantee[/]")
    if is_wasted:
        output.say_marked_up(f"[dim]WASTED GPU hours: {_wasted(found.total)}; by row with --csv or --json[/]")
    if found.total.jobs_moved:
        moved = f"{plural(found.total.jobs_moved, 'job')} moved to make whole nodes for others"
        message = f"{moved}; {found.total.gpu_hours_moved:.2f} GPU hours of their work were done again"
        output.say_marked_up(f"[dim]{message}; by row with --csv or --json[/]")
    output.next_step(f"pai report --by {','.join(words)} --csv report.csv")


def _weekly(json: bool, is_more: bool) -> None:
    if is_more:
        raise InvalidParameters("--weekly is about the last week, in one form", "give no other option of a report")
    with session.connect() as pai:
        found = pai.weekly_report()
    if output.as_json(json, found.document):
        return
    output.say(found.subject)
    output.say()
    output.say(found.text)


def _cell(row: Use, word: str) -> str:
    message = {"user": row.user, "group": row.group, "vc": row.virtual_cluster, "day": row.day}[word]
    return message or "(none)"


def _sums(row: UsageTotal, is_lent: bool, is_wasted: bool) -> tuple[str, ...]:
    used = f"{row.gpu_hours:.2f}", f"{row.cpu_hours:.2f}", f"{row.memory_gb_hours:.2f}", str(row.task_attempts)
    lent = (f"{row.gpu_hours_borrowed:.2f}", f"{row.gpu_hours_lent:.2f}") if is_lent else ()
    return *used, *lent, *((f"{row.gpu_hours_wasted:.2f}",) if is_wasted else ())


def _wasted(total: UsageTotal) -> str:
    idle, failed, preempted = total.gpu_hours_idle, total.gpu_hours_failed, total.gpu_hours_preempted
    return f"{idle:.2f} idle, {failed:.2f} lost by failures of the platform, {preempted:.2f} lost by preemption"


def _save(file: Path, text: str, json: bool) -> None:
    if str(file) == "-":
        sys.stdout.write(text)
        return
    try:
        # Keep the line ends of CSV on every machine.
        file.write_bytes(text.encode())
    except OSError as error:
        raise InvalidParameters(f"cannot write {file}: {error}", "name another file") from error
    rows = max(0, text.count("\n") - 2)
    output.done(json, {"file": str(file), "rows": rows}, f"{file}: {plural(rows, 'row')} and a total.")
