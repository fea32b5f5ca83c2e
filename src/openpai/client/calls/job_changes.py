"""Changes of jobs: stop, start, restart, tags, the archive, priority and rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import Naming
from openpai.client.calls_core import (
    Call,
    asks,
    nothing,
    whole,
)


class JobChanges(Naming):
    """Changes of one job, or of many."""

    @asks
    def stop(self, name: str, *, force: bool = False, reason: str = "") -> Call[None]:
        """Let a job end; harmless when it is over. With `force` its tasks get no time to save their work.

        The job's owner reads the reason.
        """
        body: dict[str, Any] = {"value": "STOP", **({"force": True} if force else {})}
        body |= {"reason": reason} if reason else {}
        return Call("PUT", f"{self.path(name)}/executionType", nothing, json=body)

    @asks
    def restart(self, name: str, *, reason: str = "") -> Call[None]:
        """Let a job run again from its beginning, as a new attempt, whether it runs or is over.

        The job's owner reads the reason.
        """
        body = {"value": "RESTART", **({"reason": reason} if reason else {})}
        return Call("PUT", f"{self.path(name)}/executionType", nothing, json=body, is_repeatable=False)

    @asks
    def start(self, name: str, *, reason: str = "") -> Call[None]:
        """Let a finished job run again as a new attempt. The job's owner reads the reason."""
        body = {"value": "START", **({"reason": reason} if reason else {})}
        return Call("PUT", f"{self.path(name)}/executionType", nothing, json=body, is_repeatable=False)

    @asks
    def tag(self, name: str, tag: str) -> Call[None]:
        """Put a tag on a job; harmless when it is there."""
        return Call("PUT", f"{self.path(name)}/tag", nothing, json={"value": tag})

    @asks
    def untag(self, name: str, tag: str) -> Call[None]:
        """Take a tag off a job."""
        return Call("DELETE", f"{self.path(name)}/tag", nothing, json={"value": tag})

    @asks
    def archive(self, name: str) -> Call[None]:
        """Put a finished job away: its name is free, and its id is what it is called from then on."""
        return Call("PUT", f"{self.path(name)}/archive", nothing, is_repeatable=False)

    @asks
    def unarchive(self, id_: str) -> Call[None]:
        """Give an archived job, named by its id, its name back."""
        return Call("DELETE", f"{self.path(id_)}/archive", nothing)

    @asks
    def delete(self, name: str) -> Call[None]:
        """Delete a finished job with its logs, for good."""
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
        """Do one thing to many jobs, those named or all that match, and return what became of each.

        `action` is stop, kill, start, restart, tag, untag, archive, unarchive or delete. Without `username`, `where`
        means one's own.
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
    def move(self, name: str, rank: int | str) -> Call[None]:
        """Move a waiting job among equally urgent ones: `front`, `back`, or a rank, of which the higher goes first."""
        return Call("PUT", f"{self.path(name)}/rank", nothing, json={"value": rank})

    @asks
    def checkpointed(self, name: str) -> Call[None]:
        """Say that a job has just saved its work."""
        return Call("POST", f"{self.path(name)}/checkpoint", nothing, is_repeatable=True)
