"""What a change of promises would do: who gains, who loses, and which running jobs would lose their guarantee.

A copy of the scheduler is reconfigured, in a thread, since a large cluster takes seconds; the real one decides on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.orchestrator import gangs
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.node_sync import absent_nodes, seen_nodes, with_queues
from openpai.ports.platform import PromisePreview
from openpai.scheduler.config.arrangement import Guarantees, arrange, check
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.interface import Amount, VcView
from openpai.scheduler.queue.replay import resume

_NO_GANGS: Final[tuple[str, ...]] = ()


async def preview(leader: Leader, wanted: Guarantees) -> PromisePreview:
    """Return what a setting of promises would do; raise Refused for one that would be refused."""
    seen, absent = seen_nodes(leader.nodes.values()), absent_nodes(leader.sharing.notes.values(), leader.nodes)
    check(wanted, [*seen, *absent])
    arranged = with_queues(leader, wanted, arrange(wanted, seen, absent))
    before = _promised(leader.scheduler.virtual_clusters())
    after, demoted = before, _NO_GANGS
    if arranged.config is not None and arranged.config != leader.sharing.arrangement.config:
        after, demoted = await asyncio.to_thread(_reconfigured, leader.scheduler.snapshot(), arranged.config)
    return PromisePreview(
        promises=wanted.text,
        before=before,
        after=after,
        problems=arranged.problems,
        demoted=jobs_of(leader, demoted),
    )


def jobs_of(leader: Leader, demoted: Iterable[str]) -> tuple[str, ...]:
    """Return `user~job` of the jobs of gangs, each once."""
    jobs = (leader.active.records.get(gangs.job_of(gang)) for gang in demoted)
    return tuple(dict.fromkeys(found.full_name for found in jobs if found is not None))


def _reconfigured(snapshot: Mapping[str, Any], config: HivedConfig) -> tuple[dict[str, Amount], tuple[str, ...]]:
    scheduler = resume(snapshot)
    demoted = scheduler.reconfigure(config).demoted
    return _promised(scheduler.virtual_clusters()), tuple(demoted)


def _promised(views: Iterable[VcView]) -> dict[str, Amount]:
    return {view.name: view.total for view in views}
