"""Actions on jobs: `pai job stop`, `start`, `restart`, `tag`, `archive`, `delete` and so on, and `wait`.

All but `wait` take one job, several, or all that match `--where`; of several, each failure is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from openpai.cli import completion, output, prompts, session
from openpai.cli.durations import FORMS, seconds
from openpai.cli.exits import Exit, exit_for
from openpai.cli.filters import EVERYBODY, Where, conditions
from openpai.cli.formatting import plural
from openpai.cli.job import Name
from openpai.cli.job_submit import ended
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import Results

Names = Annotated[list[str] | None, argument("NAME", "Jobs, as `job`, `user~job` or by their ids.", completion.jobs)]
Reason = Annotated[str, option("--reason TEXT", "Reason, shown to the owners of the jobs.")]
Tag = Annotated[str, argument("TAG", "Tag, by which jobs can be found.")]


def stop(
    names: Names = None,
    force: Annotated[bool, option("--force", "Kill the tasks at once, without time to save their work.")] = False,
    reason: Reason = "",
    where: Where = None,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> int:
    """Stop jobs; a job that has ended stays as it is."""
    if one := _alone(names, where):
        with session.connect() as pai:
            pai.stop(one, force=force, reason=reason)
            job = pai.job(one)
        if json:
            output.document(job.document)
        elif job.is_final:
            output.say(f"{one} has ended: {job.state}.")
            output.next_step(f"pai job show {one}", f"pai job start {one}")
        else:
            how = "its tasks are killed" if force else "its tasks get SIGTERM and time to save their work"
            output.say(f"{one} is stopping; {how}.")
            output.next_step(f"pai job wait {one}", f"pai job start {one}")
        return Exit.OK
    return _many("kill" if force else "stop", "stopping", names, where, yes, json, reason=reason)


def start(
    names: Names = None, reason: Reason = "", where: Where = None, yes: prompts.Yes = False, json: output.Json = False
) -> int:
    """Run jobs that have ended again, as a new attempt."""
    return _run_again("start", "will run again", names, where, yes, json, reason)


def restart(
    names: Names = None, reason: Reason = "", where: Where = None, yes: prompts.Yes = False, json: output.Json = False
) -> int:
    """Run jobs again from their beginning, as a new attempt, whether they run or have ended.

    The tasks of a running job get SIGTERM first, and time to save their work.
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
    """Add a tag to jobs, by which they can be found."""
    return _many("tag", f"tagged {tag_}", names, where, yes, json, tag=tag_)


def untag(
    tag_: Tag, names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False
) -> int:
    """Remove a tag from jobs."""
    return _many("untag", f"no longer tagged {tag_}", names, where, yes, json, tag=tag_)


def archive(names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False) -> int:
    """Archive ended jobs: they leave the list, and their names become free.

    `pai job list --archived` shows them with their ids, which name them from then on.
    """
    return _many("archive", "archived", names, where, yes, json)


def unarchive(names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False) -> int:
    """Move jobs, named by their ids, out of the archive."""
    return _many("unarchive", "no longer archived", names, where, yes, json)


def delete(names: Names = None, where: Where = None, yes: prompts.Yes = False, json: output.Json = False) -> int:
    """Delete ended jobs with their logs, for good.

    Reports still count what they used.
    """
    if names and not where:
        prompts.check_sure(f"Delete {plural(len(names), 'job')} with their logs, for good?", yes)
        yes = True
    return _many("delete", "deleted", names, where, yes, json)


def wait(
    name: Name,
    timeout: Annotated[
        str | None, option("--timeout TIME", f"Give up after {FORMS}; a bare number is seconds.")
    ] = None,
    json: output.Json = False,
) -> int:
    """Wait until a job ends.

    The exit code is 0 if it succeeded.
    """
    timeout_s = None if timeout is None else seconds(timeout, "--timeout", bare="s")
    with session.connect() as pai:
        job = pai.wait(name, timeout_s)
    if json:
        output.document(job.document)
        return Exit.OK if job.state == "SUCCEEDED" else Exit.JOB_FAILED
    return ended(job, name)


def _alone(names: list[str] | None, where: list[str] | None) -> str:
    """Return the name of the job, if there is one name and no condition."""
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
        raise InvalidParameters(f"pai job {action} needs jobs", "give either names of jobs or --where KEY=VALUE")
    from openpai.client.model import Results

    with session.connect() as pai:
        if one := _alone(names, where):
            _do(pai, action, one, tag or "")
            found = Results.read({"results": [{"job": one, "status": 200, "message": done}]})
        elif where:
            matching = _with_user(pai, conditions(where))
            _check_sure(pai, action, matching, yes)
            found = pai.many(action, where=matching, tag=tag, reason=reason)
        else:
            found = pai.many(action, names, tag=tag, reason=reason)
    if json:
        output.document({"job": one, "action": action, "done": True} if one else found.document)
    else:
        _print(found, done, action)
    # The first failure decides the exit code, as it would alone.
    return next((exit_for(Refused(one.code, one.message)) for one in found.results if not one.is_done), Exit.OK)


def _do(pai: Client, action: str, name: str, tag: str) -> None:
    """Use the route of a single job, which older servers of OpenPAI have as well."""
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


def _with_user(pai: Client, where: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions with a user: the caller, as in the list, unless they name one or `*`."""
    if "username" not in where:
        return {"username": pai.user or pai.whoami(), **where}
    return {key: value for key, value in where.items() if (key, value) != ("username", EVERYBODY)}


def _check_sure(pai: Client, action: str, where: dict[str, Any], yes: bool) -> None:
    if not yes:
        total = pai.jobs(limit=1, **where).total
        prompts.check_sure(f"{action.capitalize()} {plural(total, 'job')}?", yes, is_wide=True)


def _print(found: Results, done: str, action: str) -> None:
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
        output.say(f"{found.more} more jobs match; run the command again for the next ones.")
    output.next_step("pai job list --archived" if action == "archive" else "pai job list")
