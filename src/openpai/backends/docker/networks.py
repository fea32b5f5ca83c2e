"""Gives each job a network of its own on the Engine's machine, so that its tasks reach only each other.

A network is a bridge with a subnet from one range. It is created with the first container of its job and removed with
the last. Names and labels show a later server which job a network belongs to. Subnets are chosen here because an Engine
by itself has room for about thirty networks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from ipaddress import IPv4Network, ip_network
from typing import Any, Final

from openpai.backends.docker.containers import ROOT_LABEL
from openpai.backends.docker.engine import Conflict, Engine, EngineError, NoNetwork, SubnetTaken
from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.register import AttemptRegister

SUBNETS_DEFAULT: Final = IPv4Network("10.213.0.0/16")
_JOB_LABEL: Final = "openpai.job_id"
_PREFIX: Final = 24
_NOT_FOR_TASKS: Final = 3
"""Addresses of a subnet that are the network's own, the machine's, and the broadcast address."""
_MTU: Final = "com.docker.network.driver.mtu"
_DEFAULT_NETWORK: Final = "bridge"


class Networks:
    """The networks of one platform's jobs."""

    def __init__(
        self,
        engine: Engine,
        register: AttemptRegister[HostAttempt],
        scope: str,
        *,
        subnets: IPv4Network,
        tasks_max: int,
    ) -> None:
        self._engine = engine
        self._register = register
        self._scope = scope
        self._prefix = max(subnets.prefixlen, min(_PREFIX, 32 - (tasks_max + _NOT_FOR_TASKS - 1).bit_length()))
        self._subnets = subnets
        self._used: dict[str, IPv4Network] = {}
        self._strangers: set[IPv4Network] = set()
        self._options: dict[str, str] = {}
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Read which networks exist, and the packet size of the Engine's own network."""
        with contextlib.suppress(NoNetwork):
            default = await self._engine.network(_DEFAULT_NETWORK)
            mtu = (default.get("Options") or {}).get(_MTU)
            self._options = {_MTU: mtu} if mtu else {}
        await self.sweep()

    async def ensure(self, job: str) -> str:
        """Return the name of the job's network, created if necessary. Raise EngineError if that fails."""
        name = self._name(job)
        async with self._turn:
            if job not in self._used:
                self._used[job] = await self._make(name, job)
        return name

    async def forget(self, job: str) -> None:
        """Forget the network of a job, because it was removed."""
        async with self._turn:
            self._used.pop(job, None)

    async def release(self, job: str) -> None:
        """Remove the network of a job unless the register knows an attempt of it."""
        async with self._turn:
            if job in self._used and not self._register.has_job(job):
                await self._remove(job, self._name(job))

    async def sweep(self) -> None:
        """List the networks again, and remove those of jobs without attempts."""
        async with self._turn:
            found = await self._engine.networks(f"{ROOT_LABEL}={self._scope}")
            self._used = {_job(network): _subnet(network) for network in found}
            self._strangers.clear()
            for network in found:
                if not self._register.has_job(_job(network)):
                    await self._remove(_job(network), network["Name"])

    async def sweep_forever(self, every_s: float) -> None:
        """Sweep periodically: a removal may have failed, or its server may have been killed."""
        while True:
            await asyncio.sleep(every_s)
            with contextlib.suppress(EngineError):
                await self.sweep()

    async def _make(self, name: str, job: str) -> IPv4Network:
        for subnet in self._free():
            try:
                await self._engine.create_network(self._config(name, job, subnet))
            except SubnetTaken:
                self._strangers.add(subnet)
            except Conflict:
                # Created by a launch whose answer was lost.
                return _subnet(await self._engine.network(name))
            else:
                return subnet
        raise EngineError(f"all subnets of {self._subnets} are in use; give tasks a larger range with --task-subnets")

    async def _remove(self, job: str, name: str) -> None:
        # A network that is still in use is found by the next sweep.
        with contextlib.suppress(EngineError):
            await self._engine.remove_network(name)
            self._used.pop(job, None)

    def _free(self) -> Iterator[IPv4Network]:
        taken = self._strangers.union(self._used.values())
        return (subnet for subnet in self._subnets.subnets(new_prefix=self._prefix) if subnet not in taken)

    def _config(self, name: str, job: str, subnet: IPv4Network) -> dict[str, Any]:
        return {
            "Name": name,
            "Driver": "bridge",
            "CheckDuplicate": True,
            "Options": self._options,
            "IPAM": {"Config": [{"Subnet": str(subnet)}]},
            "Labels": {ROOT_LABEL: self._scope, _JOB_LABEL: job},
        }

    def _name(self, job: str) -> str:
        return f"pai.{self._scope[:8]}.{job}"


async def machine_address(engine: Engine) -> str:
    """Return an address of the Engine's machine that containers reach; empty if the Engine's own network is off."""
    try:
        default = await engine.network(_DEFAULT_NETWORK)
    except NoNetwork:
        return ""
    for config in (default.get("IPAM") or {}).get("Config") or ():
        subnet = ip_network(config["Subnet"])
        if isinstance(subnet, IPv4Network):
            return str(config.get("Gateway") or subnet[1])
    return ""


def _job(network: dict[str, Any]) -> str:
    return str((network.get("Labels") or {}).get(_JOB_LABEL, ""))


def _subnet(network: dict[str, Any]) -> IPv4Network:
    (config, *_) = network["IPAM"]["Config"]
    return IPv4Network(config["Subnet"])
