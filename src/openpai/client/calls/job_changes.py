"""Changes of jobs: stop, start, restart, tags, the archive, priority and rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import Naming
from openpai.client.calls_core import Call, asks, given, nothing, whole


class JobChanges(Naming):
    """Changes of one job, or of many."""

    @asks
    def stop(self, name: str, *, force: bool = False, reason: str = "") -> Call[None]:
        """Stop a job; does nothing if it is finished. With `force` its tasks get no grace period.

        The job's owner reads the reason.
        """
        body: dict[str, Any] = {"value": "STOP", **({"force": True} if force else {})}
        body |= {"reason": reason} if reason else {}
        return Call("PUT", f"{self.path(name)}/executionType", nothing, json=body)

    @asks
    def restart(self, name: str, *, reason: str = "") -> Call[None]:
        """Run a job from its beginning as a new attempt, whether it runs or is finished.

        The job's owner reads the reason.
        """
        body = {"value": "RESTART", **({"reason": reason} if reason else {})}
        return Call("PUT", f"{self.path(name)}/executionType", nothing, json=body, is_repeatable=False)

    @asks
    def start(self, name: str, *, reason: str = "") -> Call[None]:
        """Start a finished job again as a new attempt. The job's owner reads the reason."""
        body = {"value": "START", **({"reason": reason} if reason else {})}
        return Call("PUT", f"{self.path(name)}/executionType", nothing, json=body, is_repeatable=False)

    @asks
    def tag(self, name: str, tag: str) -> Call[None]:
        """Put a tag on a job; does nothing if the job has it."""
        return Call("PUT", f"{self.path(name)}/tag", nothing, json={"value": tag})

    @asks
    def untag(self, name: str, tag: str) -> Call[None]:
        """Remove a tag from a job."""
        return Call("DELETE", f"{self.path(name)}/tag", nothing, json={"value": tag})

    @asks
    def archive(self, name: str) -> Call[None]:
        """Archive a finished job: its name is free, and its id names it from then on."""
        return Call("PUT", f"{self.path(name)}/archive", nothing, is_repeatable=False)

    @asks
    def unarchive(self, id_: str) -> Call[None]:
        """Take a job, named by its id, out of the archive, under its old name."""
        return Call("DELETE", f"{self.path(id_)}/archive", nothing)

    @asks
    def delete(self, name: str) -> Call[None]:
        """Delete a finished job and its logs permanently."""
        return Call("DELETE", self.path(name), nothing)

    @asks
    def many(
        self,
        action: str,
        names: Sequence[str] | None = None,
        *,
        where: Mapping[str, str | int | Sequence[str] | None] | None = None,
        tag: str | None = None,
        reason: str = "",
    ) -> Call[model.Results]:
        """Perform one action on many jobs, those named or all that match, and return the result for each.

        `action` is stop, kill, start, restart, tag, untag, archive, unarchive or delete. Without `username`, `where`
        matches only one's own jobs.
        """
        if isinstance(names, str):
            names = [names]
        chosen = {"jobs": list(names)} if names is not None else {"where": dict(where or {})}
        body = {"action": action, **chosen, **({} if tag is None else {"tag": tag})}
        body |= {"reason": reason} if reason else {}
        return Call("POST", "/jobs/bulk", whole(model.Results.read), json=body)

    @asks
    def set_priority(self, name: str, priority_class: str) -> Call[None]:
        """Change a job's priority class: crit, prod, test or oppo."""
        return Call("PUT", f"{self.path(name)}/priority", nothing, json={"value": priority_class})

    @asks
    def scale(self, name: str, numbers: Mapping[str, int | Mapping[str, int]]) -> Call[None]:
        """Change the number of tasks of task roles, as in `{"worker": 4}`; the other tasks run on.

        Instead of a number, `{"instances": 4, "minFailedInstances": 1, "minSucceededInstances": -1}` changes what ends
        the job, too.
        """
        roles = {role: {"instances": number} if isinstance(number, int) else number for role, number in numbers.items()}
        return Call("PUT", f"{self.path(name)}/taskRoles", nothing, json={"taskRoles": roles})

    @asks
    def move(
        self, name: str, rank: int | str | None = None, *, before: str | None = None, after: str | None = None
    ) -> Call[None]:
        """Move a waiting job among those of equal priority: `front`, `back`, or a rank; a higher one goes first.

        Instead of a rank, `before` or `after` names another job that waits in the same virtual cluster.
        """
        return Call("PUT", f"{self.path(name)}/rank", nothing, json=given(value=rank, before=before, after=after))

    @asks
    def checkpointed(self, name: str) -> Call[None]:
        """Record that a job has just saved its work."""
        return Call("POST", f"{self.path(name)}/checkpoint", nothing, is_repeatable=True)
