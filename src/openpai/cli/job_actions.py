"""`pai job stop`, `start`, `restart`, `tag`, `archive` and their like, and `wait`: what is done to jobs.

All but `wait` take one job, several, or all that match `--where`; of several, each is told that could not be done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from openpai.cli import completing, output, prompts, session
from openpai.cli.durations import FORMS, seconds
from openpai.cli.exits import Exit, exit_for
from openpai.cli.filters import EVERYBODY, Where, conditions
from openpai.cli.job import Name
from openpai.cli.job_submit import ended
from openpai.cli.words import plural
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import Results

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Jobs, as `job`, `user~job` or by their ids.", autocompletion=completing.jobs),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the owners of the jobs.")]
Tag = Annotated[str, typer.Argument(metavar="TAG", help="A word to find jobs by.")]


def stop(
    names: Names = None,
    force: Annotated[
        bool, typer.Option("--force", help="Kill their tasks at once, without time to save their work.")
    ] = False,
    reason: Reason = "",
    where: Where = None,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> int:
    """Let jobs end; harmless when they are over already."""
    if one := _alone(names, where):
        with session.connect() as pai:
            pai.stop(one, force=force, reason=reason)
            job = pai.job(one)
        if json:
            output.document(job.document)
        elif job.is_final:
            output.say(f"{one} is over: {job.state}.")
            output.next_step(f"pai job show {one}", f"pai job start {one}")
        else:
            how = "its tasks are killed" if force else "its tasks are asked to end and may save their work"
            output.say(f"{one} will stop; {how}.")
            output.next_step(f"pai job wait {one}", f"pai job start {one}")
        return Exit.OK
    return _many("kill" if force else "stop", "will stop", names, where, yes, json, reason=reason)


def start(
    names: Names = None,
    reason: Reason = "",
    where: Where = None,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> int:
    """Let jobs that are over run again, as a new attempt."""
    return _run_again("start", "will run again", names, where, yes, json, reason)


def restart(
    names: Names = None,
    reason: Reason = "",
    where: Where = None,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> int:
    """Let jobs run again from their beginning, as a new attempt, whether they run or are over.

    The tasks of a running job are asked to end first and may save their work.
    """
    return _run_again("restart", "will run again from its beginning", names, where, yes, json, reason)


def _run_again(
    action: str, done: str, names: list[str] | None, where: list[str] | None, yes: bool, json: bool, reason: str
) -> int:
    one = _alone(names, where)
    if not one:
        return _many(action, "will run again", names, where, yes, json, reason=reason)
    with session.connect() as pai:
        begin = pai.start if action == "start" else pai.restart
        begin(one, reason=reason)
        if json:
            output.document(pai.job(one).document)
            return Exit.OK
    output.say(f"{one} {done}.")
    output.next_step(f"pai job logs {one} -f", f"pai job show {one}")
    return Exit.OK


def tag(
    tag_: Tag, names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False
) -> int:
    """Put a tag on jobs, to find them by."""
    return _many("tag", f"tagged {tag_}", names, where, yes, json, tag=tag_)


def untag(
    tag_: Tag, names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False
) -> int:
    """Take a tag off jobs."""
    return _many("untag", f"not tagged {tag_} any more", names, where, yes, json, tag=tag_)


def archive(names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False) -> int:
    """Put finished jobs away: they leave the list, and their names are free.

    `pai job list --archived` shows them with their ids, by which they are called from then on.
    """
    return _many("archive", "in the archive", names, where, yes, json)


def unarchive(names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False) -> int:
    """Take jobs, named by their ids, out of the archive."""
    return _many("unarchive", "out of the archive", names, where, yes, json)


def delete(names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False) -> int:
    """Delete finished jobs with their logs, for good.

    What they used stays in the accounts.
    """
    if names and not where:
        prompts.check_sure(f"Delete {plural(len(names), 'job')} with their logs, for good?", yes)
        yes = True
    return _many("delete", "deleted", names, where, yes, json)


def wait(
    name: Name,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help=f"Give up after {FORMS}; a bare number is seconds."),
    ] = None,
    json: output.Json = False,
) -> int:
    """Wait until a job is over.

    The exit code says whether it succeeded.
    """
    timeout_s = None if timeout is None else seconds(timeout, "--timeout", bare="s")
    with session.connect() as pai:
        job = pai.wait(name, timeout_s)
    if json:
        output.document(job.document)
        return Exit.OK if job.state == "SUCCEEDED" else Exit.JOB_FAILED
    return ended(job, name)


def _alone(names: list[str] | None, where: list[str] | None) -> str:
    """Return the one job that is meant, if it is one."""
    return names[0] if names and len(names) == 1 and not where else ""


def _many(
    action: str,
    done: str,
    names: list[str] | None,
    where: list[str] | None,
    yes: bool,
    json: bool,
    tag: str | None = None,
    reason: str = "",
) -> int:
    if bool(names) == bool(where):
        raise Refused(
            "InvalidParametersError",
            f"which jobs shall be meant by {action}?",
            "name jobs or say --where KEY=VALUE, one of the two",
        )
    from openpai.client.model import Result, Results

    with session.connect() as pai:
        if one := _alone(names, where):
            _do(pai, action, one, tag or "")
            found = Results((Result(one, True, done, ""),), 0, {"job": one, "action": action, "done": True})
        elif where:
            matching = _meant(pai, conditions(where))
            _check_sure(pai, action, matching, yes)
            found = pai.many(action, where=matching, tag=tag, reason=reason)
        else:
            found = pai.many(action, names, tag=tag, reason=reason)
    if json:
        output.document(found.document)
    else:
        _tell(found, done, action)
    # The first one that failed speaks for all, as it would have alone.
    return next((exit_for(Refused(one.code, one.message)) for one in found.results if not one.is_done), Exit.OK)


def _do(pai: Client, action: str, name: str, tag: str) -> None:
    """Do it by the route of that one job, which every OpenPAI has that can do it at all."""
    match action:
        case "tag":
            pai.tag(name, tag)
        case "untag":
            pai.untag(name, tag)
        case "archive":
            pai.archive(name)
        case "unarchive":
            pai.unarchive(name)
        case "delete":
            pai.delete(name)
        case _:
            raise AssertionError(action)


def _meant(pai: Client, where: dict[str, Any]) -> dict[str, Any]:
    """Return conditions that say whose jobs are meant: one's own, as in the list, unless they say otherwise."""
    if "username" not in where:
        return {"username": pai.user or pai.whoami(), **where}
    return {key: value for key, value in where.items() if (key, value) != ("username", EVERYBODY)}


def _check_sure(pai: Client, action: str, where: dict[str, Any], yes: bool) -> None:
    if not yes:
        total = pai.jobs(limit=1, **where).total
        prompts.check_sure(f"{action.capitalize()} {plural(total, 'job')}?", yes, is_wide=True)


def _tell(found: Results, done: str, action: str) -> None:
    for one in found.results:
        if not one.is_done:
            output.complain(Refused(one.code, f"{one.job}: {one.message}"))
    count = sum(one.is_done for one in found.results)
    if not found.results:
        output.say("No job matches.")
        output.next_step("pai job list")
        return
    if len(found.results) == 1 and count:
        output.say(f"{found.results[0].job}: {done}.")
    elif count:
        output.say(f"{plural(count, 'job')}: {done}.")
    if found.more:
        output.say(f"{found.more} more match; run the same again for the next of them.")
    output.next_step("pai job list --archived" if action == "archive" else "pai job list")
