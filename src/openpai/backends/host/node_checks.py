"""Checks this machine before it takes tasks, and between tasks: GPUs, disk, clock and mounts.

Each check has a result, a time and a reason. One that fails keeps new tasks away, from the machine or from a GPU of it,
until it has passed three times; running tasks are left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import structlog

from openpai.backends.host.device_checks import PRESENT, DeviceChecks
from openpai.backends.host.findings import Finding, Findings
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.backends.host.machine_checks import DISK, ClockCheck, disk, mounted, storage
from openpai.backends.host.probing import PATIENCE_S, Probe
from openpai.ports.backend import NodeSeen
from openpai.ports.clock import Clock

log: Final = structlog.get_logger(__name__)
_SILENT: Final = f"it does not answer within {PATIENCE_S:g} s"


class NodeChecks:
    """The checks of this machine and what they found."""

    def __init__(
        self,
        gpus: Gpus,
        root: Path,
        clock: Clock,
        mounts: Sequence[str] = (),
        devices: DeviceChecks | None = None,
        clock_check: ClockCheck | None = None,
    ) -> None:
        self._clock = clock
        self._devices = devices or DeviceChecks(gpus)
        self._findings = Findings()
        self._probes: dict[str, Probe[list[Finding]]] = {}
        if gpus.total and gpus.model != VIRTUAL:
            self._probes[PRESENT] = Probe(self._devices.look)
        self._probes[DISK] = Probe(partial(disk, str(root)))
        self._clock_check = clock_check or ClockCheck()
        for path in mounts:
            self._probes[f"mount {path}"] = Probe(partial(mounted, path))
        self._storages: dict[str, str] = {}
        # A look while another goes on would take it for one that hangs.
        self._looking = asyncio.Lock()

    def expect_storages(self, directories: Mapping[str, str]) -> None:
        """Check these directories, by the names of their storages, and no others."""
        wanted = {f"storage {name}": path for name, path in sorted(directories.items())}
        for check in [check for check, path in self._storages.items() if wanted.get(check) != path]:
            del self._probes[check]
            self._findings.forget(check)
        for check in wanted.keys() - self._storages.keys() | wanted.keys() - self._probes.keys():
            self._probes[check] = Probe(partial(storage, check, wanted[check]))
        self._storages = wanted

    def xids(self) -> Mapping[int, int]:
        """Return the number of the last XID error of each GPU, as far as they are known."""
        return self._devices.xids()

    def close(self) -> None:
        """Release what the checks hold open."""
        self._devices.close()

    async def applied(self, nodes: Sequence[NodeSeen]) -> tuple[NodeSeen, ...]:
        """Check the machine, and return its nodes with what was found."""
        await self._look()
        findings = self._findings
        bad = findings.bad_devices
        checks = tuple(replace(each, is_about_storage=each.name in self._storages) for each in findings.checks())
        because = [*findings.faults, *(f"GPU {device}: {reason}" for device, reason in sorted(bad.items()))]
        return tuple(
            replace(
                node,
                is_healthy=node.is_healthy and not findings.faults,
                bad_devices=frozenset(bad),
                message="; ".join(filter(None, (node.message, *because))),
                checks=checks,
            )
            for node in nodes
        )

    async def _look(self) -> None:
        async with self._looking:
            found = await asyncio.gather(*(self._result(name, probe) for name, probe in self._probes.items()))
            self._findings.learn([*self._clock_check.look(), *chain.from_iterable(found)], self._clock.now_ms())

    async def _result(self, name: str, probe: Probe[list[Finding]]) -> list[Finding]:
        try:
            found = await probe.result()
        except Exception as error:
            log.error("a check of the node could not be made", check=name, error=str(error))
            return []
        if found is not None:
            return [Finding(PRESENT), *found] if name == PRESENT else found
        if name == PRESENT:
            # A driver that is busy for a while says nothing about its GPUs: what was known of each stays.
            return [Finding(PRESENT, "warning", f"the driver does not answer within {PATIENCE_S:g} s")]
        return [Finding(name, "warning" if name in self._storages else "failed", _SILENT)]
