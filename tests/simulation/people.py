"""People: they submit jobs, stop and start them on whichever server answers, and remember what they were promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from openpai.ports.platform import Submitter
from openpai.protocol.errors import Broken, PaiError
from openpai.scheduler.model import Why
from tests.simulation.chance import URGENCIES, job_file
from tests.simulation.server import Server

if TYPE_CHECKING:
    from tests.simulation.world import World

USER: Final = "ann"
HOPELESS: Final = (Why.NO_NODE, Why.NO_VIRTUAL_CLUSTER)
RETRIES_MAX: Final = 2
"""How often a job file asks for retries at most. A program that is killed each time is tried for hours."""


class People:
    """All users of the platform of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self._promises = world.checkers.promises
        self.jobs_sent = 0
        self._wishing: set[str] = set()
        self._doubtful: set[str] = set()
        """Jobs whose submission was not answered: they may exist."""

    async def submit(self) -> None:
        """Send a new job, or one whose submission was not answered once more."""
        if self._doubtful and self._chance.random() < 0.5:
            name = self._chance.choice(sorted(self._doubtful))
        else:
            self.jobs_sent += 1
            name = f"j{self.jobs_sent}"
        if name in self._wishing:
            return
        text = job_file(self._chance, name, self._world.luck, sorted(self._promises.submitted - {name}))
        self._wish(name, "submit", lambda server: server.commands.submit(Submitter(USER), text))

    async def stop(self) -> None:
        """Ask for a job's end."""
        if name := self._a_job():
            self._wish(name, "stop", lambda server: server.commands.stop(USER, name, USER))

    async def start(self) -> None:
        """Ask for a job's new start."""
        if name := self._a_job():
            self._promises.stopped.pop(name, None)
            self._wish(name, "start", lambda server: server.commands.start(USER, name, USER))

    async def hurry(self) -> None:
        """Change how urgent a job is, or its place in the queue."""
        if name := self._a_job():
            if self._chance.random() < 0.5:
                urgency = self._chance.choice(URGENCIES)
                self._wish(
                    name, f"be {urgency}", lambda server: server.commands.set_priority(USER, name, urgency, USER)
                )
            else:
                rank = self._chance.randint(-2, 2)
                self._wish(name, f"rank {rank}", lambda server: server.commands.set_rank(USER, name, rank, "root"))

    def administer(self, what: str, ask: Callable[[Server], Coroutine[Any, Any, Any]]) -> None:
        """Let an administrator change something other than a job; a server that does not lead may refuse."""
        self._wish("", what, ask)

    def _a_job(self) -> str | None:
        jobs = sorted(self._promises.submitted - self._wishing)
        return self._chance.choice(jobs) if jobs else None

    def _wish(self, name: str, what: str, ask: Callable[[Server], Coroutine[Any, Any, Any]]) -> None:
        server = self._world.servers[self._chance.choice(sorted(self._world.servers))]
        self._world.note(f"{server.name} is asked to {what} {name}")
        self._wishing.add(name)
        server.spawn(self._answered(name, what, ask(server)))

    async def _answered(self, name: str, what: str, promise: Coroutine[Any, Any, Any]) -> None:
        try:
            await promise
        except PaiError as error:
            self._refused(name, what, error)
        except asyncio.CancelledError:
            self._unanswered(name, what)
            raise
        except Exception as error:
            self._unanswered(name, what)
            self._world.blame(f"{what} {name} failed with {error!r}")
        else:
            if name:
                self._acknowledged(name, what)
            else:
                self._world.note(f"{what} is acknowledged")
        finally:
            self._wishing.discard(name)

    def _acknowledged(self, name: str, what: str) -> None:
        self._world.note(f"{what} {name} is acknowledged")
        if what == "submit":
            self._promises.submitted.add(name)
            self._doubtful.discard(name)
        row = self._world.checkers.job(name)
        if row is None:
            self._world.blame(f"{what} {name} was acknowledged and there is no such job")
        elif what == "stop":
            if row["phase"] not in ("succeeded", "failed", "stopped") and not row["is_stop_requested"]:
                self._world.blame(f"the stop of {name} was acknowledged and is not written down")
            self._promises.stopped[name] = row["phase"] != "succeeded" and row["outcome"] is None
        elif what == "start" and row["is_stop_requested"]:
            if row["time_limit_ms"] is None:
                self._world.blame(f"the start of {name} was acknowledged and its stop stands")
        elif what.startswith("be ") and row["priority_class"] != what.removeprefix("be "):
            self._world.blame(f"{name} was to {what}, and it is {row['priority_class']}")
        elif what.startswith("rank ") and row["rank"] != int(what.removeprefix("rank ")):
            self._world.blame(f"{name} was to have {what}, and it has {row['rank']}")

    def _refused(self, name: str, what: str, error: PaiError) -> None:
        self._world.note(f"{what} {name}: {error.code} {error.message}")
        if what == "submit" and error.code == "ConflictJobError":
            self._acknowledged(name, what)
        elif isinstance(error, Broken):
            self._world.blame(f"{what} {name} failed with {error!r}")
        elif error.code == "UnavailableError":
            self._unanswered(name, what)

    def _unanswered(self, name: str, what: str) -> None:
        if what == "submit":
            self._doubtful.add(name)

    async def give_up(self) -> None:
        """Stop the jobs that can never be placed, and those that only fail again and again, as their owners would."""
        for server in self._world.servers.values():
            for name in self._world.checkers.unfinished() if server.commands.leader is not None else ():
                row = self._world.checkers.job(name) or {}
                waits = await server.commands.why(row.get("id", ""))
                if row.get("attempt", 0) > RETRIES_MAX or any(wait.code in HOPELESS for wait in waits):
                    await server.commands.stop(USER, name, USER)

    async def waits(self) -> str:
        """Return the jobs that have not ended, and why they wait."""
        message = []
        for name in self._world.checkers.unfinished():
            row = self._world.checkers.job(name) or {}
            waits = [
                f"{wait.code}: {wait.message}"
                for server in self._world.servers.values()
                if server.commands.leader is not None
                for wait in await server.commands.why(row.get("id", ""))
            ]
            message.append(f"{name} ({row['id']}) is {row['phase']} {waits}")
        return "\n  ".join(message)
