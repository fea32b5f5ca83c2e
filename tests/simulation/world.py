"""One world per seed: a cluster that outlives servers, servers that die, users with requests, and a driver.

The driver takes one small step at a time, chosen by the seed, and lets everything settle before the next. After the
last faulty step come calm times: everything that was promised has to become true, and nothing may be left.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, Final

import structlog

from openpai.access.quotas import Quota
from openpai.app import loops
from openpai.backends.simulated.backend import SimulatedBackend, virtual_nodes
from openpai.ports.backend import Action
from openpai.ports.cluster_settings import CLUSTER
from openpai.ports.platform import NodeChange
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.usage import SqlUsageStore
from tests.faulty_cluster import FaultyCluster
from tests.newest import fill
from tests.simulation.chance import CLUSTERS, ChanceFaults, Luck, promises_text
from tests.simulation.checkers import Checkers, Violation
from tests.simulation.loop import Numbered, VirtualClock, VirtualLoop
from tests.simulation.people import USER, People
from tests.simulation.server import Server
from tests.simulation.turnstile import Gate

TRACE_KEPT: Final = 40
CALM_MAX_S: Final = 6 * 3600
SILENCE_S: Final = 100
"""How long after the last job's end nothing may be left: some audits."""


class World:
    """Everything of one seed."""

    calm_max_s = 0
    silence_s = SILENCE_S
    on = ""
    """How `make simulate` is asked for this kind of world."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.chance = Random(seed)
        self.luck = Luck.draw(self.chance)
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.names = Numbered()
        self.faults = ChanceFaults(self.chance, self.luck)
        self.cluster = self.make_cluster()
        self.database = Database("sqlite://", inline=True)
        fill(self.database)
        connection: Any = self.database.engine.raw_connection().driver_connection
        self.checkers = self.make_checkers(connection)
        self.faults.judge = self.judge
        self.servers: dict[str, Server] = {}
        self.servers_made = 0
        self.people = People(self)
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_KEPT)
        self.digest = hashlib.sha256()
        self.violation: Exception | None = None

    # What another backend replaces.

    def make_cluster(self) -> Any:
        """Return the cluster, which outlives servers."""
        return FaultyCluster(virtual_nodes(self.luck.nodes, self.luck.gpus), faults=self.faults)

    def make_checkers(self, connection: Any) -> Checkers:
        """Return who looks at everything after each step."""
        return Checkers(connection, self.cluster, self.faults.starts)

    def make_server(self, place: str, number: int) -> Server:
        """Return a server with a connection to the cluster."""
        backend = SimulatedBackend(self.cluster, self.clock)
        return Server(place, number, self.database, backend, self.clock, self.names, self.look)

    def troubles(self) -> list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return what else may happen in a step, with weights."""
        return [(self.luck.weights["lose a task"], self.lose_task)]

    def note(self, what: str) -> None:
        """Write a line of the trace."""
        line = f"{self.loop.time():.3f} {what}"
        self.trace.append(line)
        self.digest.update(line.encode())

    def look(self, what: str) -> None:
        """Check everything after a step; remember the first thing that is wrong."""
        was = self.checkers.seen_changes
        if self.violation is None:
            try:
                self.checkers.look(is_lease=what.endswith(".lease"))
            except Violation as violation:
                self.violation = violation
        # In calm times most calls find nothing to do, and would push what matters out of the trace.
        if not self.faults.is_calm or (was != self.checkers.seen_changes and not what.endswith(".lease")):
            self.note(what)

    def judge(self, action: Action) -> None:
        """Check an action before it leaves."""
        try:
            self.checkers.judge(action)
        except Violation as violation:
            self.note(f"{action!r}")
            self.violation = self.violation or violation

    def blame(self, message: str) -> None:
        """Remember that something must not have happened."""
        self.note(message)
        self.violation = self.violation or Violation(message)

    async def live(self) -> None:
        """Live through the seed's troubles and the calm after them. Raises Violation."""
        if self.luck.virtual_clusters:
            body = {"promises": promises_text(self.chance, self.luck)}
            await SqlSettingsStore(self.database).set_setting(CLUSTER, body, by="root", at_ms=0)
        for number in range(self.luck.servers):
            await self.start_server("ab"[number])
        while self.steps < self.luck.steps:
            self.steps += 1
            await self.step()
            await self.settle()
        await self.calm_down()
        ended_at_s = await self.until(lambda: not self.checkers.unfinished())
        self.note(f"every job had ended by {ended_at_s:.0f}")
        await asyncio.sleep(self.silence_s)
        await self.settle()
        self.checkers.look_at_the_end()
        self.look_at_offices()

    async def settle(self) -> None:
        """Let everybody come to rest; raise what was found wrong meanwhile."""
        await self.loop.settle()
        for server in self.servers.values():
            if server.leading is not None and server.leading.done():
                self.blame(f"{server.name} stopped by itself: {server.leading.exception()!r}")
        if self.violation is not None:
            raise self.violation

    async def step(self) -> None:
        """Do one thing."""
        weights = self.luck.weights
        choices: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [(6.0, self.let_time_pass)]
        if gates := self.gates():
            choices.append((60.0, lambda: self.open_gate(gates)))
            choices.append((weights["no answer"], lambda: self.fail_gate(gates)))
        if self.servers:
            if self.people.jobs_sent < self.luck.jobs:
                choices.append((5.0, self.people.submit))
            choices.append((weights["stop"], self.people.stop))
            choices.append((weights["start"], self.people.start))
            choices.append((weights["kill a server"], self.kill_server))
            choices.append((weights["freeze a server"], self.freeze_server))
        if len(self.servers) < self.luck.servers:
            choices.append((8.0, self.revive_server))
        choices.append((weights["kill a node"], self.kill_node))
        choices.append((weights["kill a node"], self.revive_node))
        choices.append((weights["break devices"], self.break_devices))
        choices += self.troubles()
        if self.servers:
            choices.append((weights["urgency"], self.people.hurry))
            choices.append((weights["change a node"], self.change_node))
            choices.append((weights["limit"], self.change_limits))
            if self.luck.virtual_clusters:
                choices.append((weights["promise"], self.promise))
        await self.chance.choices([do for _, do in choices], [weight for weight, _ in choices])[0]()

    # Steps: time and calls.

    def gates(self) -> list[Gate]:
        """Return the calls that may go on: those of servers that are not frozen."""
        now_ms = self.clock.now_ms()
        awake = [server for server in self.servers.values() if server.frozen_until_ms <= now_ms]
        return [gate for server in awake for gate in server.turnstile.gates()]

    async def let_time_pass(self) -> None:
        """Let nothing but time happen."""
        await asyncio.sleep(self.chance.choice((0.01, 0.1, 0.3, 1.0, 3.0, 10.0)))
        self.cluster.advance(self.clock.now_ms())
        self.look("time passes")

    async def open_gate(self, gates: list[Gate]) -> None:
        """Let one call go on."""
        self.chance.choice(gates).future.set_result(None)

    async def fail_gate(self, gates: list[Gate]) -> None:
        """Leave one call without an answer."""
        gate = self.chance.choice(gates)
        if gate.may_fail:
            self.note(f"no answer {gate.side} {gate.what}")
            gate.fail()

    # Steps: servers and nodes.

    async def start_server(self, place: str) -> None:
        """Start a process at a place that has none."""
        self.servers_made += 1
        server = self.make_server(place, self.servers_made)
        self.servers[place] = server
        self.note(f"{server.name} starts")
        await server.start()

    async def revive_server(self) -> None:
        """Start a process where one died."""
        await self.start_server(
            self.chance.choice(["ab"[n] for n in range(self.luck.servers) if "ab"[n] not in self.servers])
        )

    async def kill_server(self) -> None:
        """Let a process die wherever its calls stand."""
        server = self.servers.pop(self.chance.choice(sorted(self.servers)))
        self.note(f"{server.name} dies")
        await server.die()

    async def freeze_server(self) -> None:
        """Let a process hang, perhaps for longer than its lease, and then go on with what it believed."""
        server = self.servers[self.chance.choice(sorted(self.servers))]
        server.frozen_until_ms = self.clock.now_ms() + self.chance.choice((1_000, 10_000, 60_000))
        self.note(f"{server.name} freezes")

    async def kill_node(self) -> None:
        """Let a node die with all its tasks."""
        self.cluster.kill_node(self._node(), self.clock.now_ms())
        self.look("a node dies")

    async def revive_node(self) -> None:
        """Let a node come back."""
        self.cluster.revive_node(self._node(), self.clock.now_ms())
        self.look("a node comes back")

    async def break_devices(self) -> None:
        """Let some devices of a node be broken, and all others be well."""
        broken = [device for device in range(self.luck.gpus) if self.chance.random() < 0.3]
        self.cluster.set_bad_devices(self._node(), broken)
        self.look("devices break")

    async def lose_task(self) -> None:
        """Let a task vanish."""
        running = sorted(task.key for task in self.cluster.running())
        if running:
            key = self.chance.choice(running)
            self.cluster.lose(key, self.clock.now_ms())
            self.look(f"{key.path()} vanishes")

    # Steps: administrators.

    async def change_node(self) -> None:
        """Drain a node, give it back, or mark devices of it."""
        name, promise = self._node(), NodeChange(is_drained=self.chance.random() < 0.5)
        if self.chance.random() < 0.3:
            promise = NodeChange(bad_devices=frozenset({self.chance.randrange(self.luck.gpus)}))
        self.people.administer(
            f"change {name}: {promise}", lambda server: server.commands.change_node(name, promise, "root")
        )

    async def promise(self) -> None:
        """Promise the virtual clusters something else."""
        promises = promises_text(self.chance, self.luck)
        self.people.administer(
            f"promise {promises}",
            lambda server: server.commands.configure(promises=promises, hived=None, version=None, by="root"),
        )

    async def change_limits(self) -> None:
        """Limit what the user may run at a time, or lift the limit."""
        most = self.chance.choice((None, 0, 1, 3))
        store = SqlUsageStore(self.database)
        await store.set_quota(Quota("", USER, gpus_running=most))
        self.people.administer(f"limit {most}", lambda server: server.commands.limits_changed())

    def _node(self) -> str:
        return self.chance.choice([node.name for node in self.cluster.nodes()])

    # The calm after it.

    async def calm_down(self) -> None:
        """End all trouble: servers are up, nodes are well, messages arrive, and everybody passes at once."""
        self.note("calm")
        self.faults.is_calm = True
        for node in self.cluster.nodes():
            self.cluster.revive_node(node.name, self.clock.now_ms())
            self.cluster.set_bad_devices(node.name, ())
        for number in range(self.luck.servers):
            if "ab"[number] not in self.servers:
                await self.start_server("ab"[number])
        for server in self.servers.values():
            server.turnstile.open()
        await self.settle()
        await self.put_right()

    async def put_right(self) -> None:
        """Give back every node, promise everything to everybody and lift the limits, as administrators would."""
        settings, usage = SqlSettingsStore(self.database), SqlUsageStore(self.database)
        notes = await settings.node_notes()
        healthy = tuple(replace(note, is_drained=False, bad_devices=frozenset()) for note in notes)
        await settings.set_node_notes(healthy, None)
        body = {"promises": ", ".join(f"{name}: 1 GPU" for name in CLUSTERS[: self.luck.virtual_clusters])}
        await settings.set_setting(CLUSTER, body, by="root", at_ms=self.clock.now_ms())
        await usage.set_quota(Quota("", USER, gpus_running=None))

    async def until(self, is_done: Callable[[], bool]) -> float:
        """Let time pass until `is_done`; raise Violation when that takes too long."""
        limit_s = self.loop.time() + (self.calm_max_s or CALM_MAX_S)
        while not is_done():
            if self.loop.time() > limit_s:
                raise Violation(f"these jobs never end: {await self.people.waits()}")
            await asyncio.sleep(20)
            await self.settle()
            await self.people.give_up()
        return self.loop.time()

    def look_at_offices(self) -> None:
        """Raise Violation unless one server leads and holds nothing."""
        offices = [server.commands.leader for server in self.servers.values() if server.commands.leader is not None]
        if len(offices) != 1:
            raise Violation(f"{len(offices)} servers lead in calm times")
        leader: Any = offices[0]
        held = {
            "active jobs": leader.active.records,
            "actions": leader.active.to_act,
            "ends to forget": leader.active.to_forget,
            "launches": leader.active.launched,
            "kills": leader.active.killed,
            "holdings": leader.scheduler.state.running.gangs,
            "waiting gangs": list(leader.scheduler.state.queue.all()),
            "reserving gangs": leader.scheduler.state.reserving,
            "uncountable gangs": leader.scheduler.state.uncountable,
            "cells": leader.scheduler.core.cluster.gangs,
            "ports": [ports for ports in leader.ports._taken.values() if ports],
        }
        for what, left in held.items():
            if left:
                raise Violation(f"{what} are left: {left}")

    async def end(self) -> None:
        """Let go of everything."""
        for server in self.servers.values():
            await server.die()
        self.database.close()


class Failed(AssertionError):
    """A seed broke a promise; says which, and the last steps before."""


def live_through(seed: int, kind: type[World] = World) -> str:
    """Live through one seed; return a digest of everything that happened. Raises Failed."""
    loop = VirtualLoop()
    config, every_s = structlog.get_config(), loops.INBOX_EVERY_S
    # Most of an hour of virtual time would be spent looking into an empty inbox.
    loops.INBOX_EVERY_S = 5.0  # type: ignore[misc]
    world: World | None = None
    try:
        world = kind(seed, loop)
        structlog.configure(processors=[_listener(world)], cache_logger_on_first_use=False)
        loop.run_until_complete(world.live())
        return world.digest.hexdigest()
    except Exception as error:
        trace = "\n".join(world.trace if world else ())
        command = f"make simulate SEED={seed}{kind.on}"
        raise Failed(f"seed {seed}: {error}\n{trace}\nreplay it with: {command}") from error
    finally:
        if world is not None:
            loop.run_until_complete(world.end())
        loop.close()
        structlog.configure(**config)
        loops.INBOX_EVERY_S = every_s  # type: ignore[misc]


def _listener(world: World) -> Any:
    def listen(_logger: Any, method: str, event: dict[str, Any]) -> Any:
        message = " ".join(f"{key}={value}" for key, value in event.items() if key != "exc_info")
        if method in ("error", "exception", "critical"):
            world.blame(f"{method}: {message} {_traceback(event)}")
        else:
            world.note(f"log: {message}")
        raise structlog.DropEvent

    return listen


def _traceback(event: dict[str, Any]) -> str:
    if not event.get("exc_info"):
        return ""
    import traceback

    return "\n" + traceback.format_exc()


__all__ = ["Failed", "World", "live_through"]
