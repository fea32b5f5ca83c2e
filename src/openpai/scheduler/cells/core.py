"""The HiveD scheduler: report facts to it, ask it for decisions, and commit those that are carried out.

It uses no clock and no network, keeps its state in memory, and gives the same answers to the same history. A decision
changes nothing until it is committed; the next request or fact drops a decision that is not committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.decision import Proposal, decide, missing_devices, record_preemption
from openpai.scheduler.cells.feasibility import broken_rule, check_together, refusal, too_large
from openpai.scheduler.cells.guarantees import settle_guarantees
from openpai.scheduler.cells.journal import remove
from openpai.scheduler.cells.model import (
    Bind,
    Code,
    Decision,
    GangRecord,
    GangRequest,
    NodeHealth,
    Preempt,
    Shape,
    State,
    Wait,
    shape_of,
)
from openpai.scheduler.cells.reasons import reason_to_wait
from openpai.scheduler.cells.restoring import (
    NO_GUARANTEE,
    Reconfigured,
    binding,
    changed,
    moved_to,
    of_its_type,
    restore,
    set_health,
    type_served,
)
from openpai.scheduler.cells.snapshot import dump, load
from openpai.scheduler.cells.trial import Trial
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.model import Spot

T = TypeVar("T")
REMEMBERED_MAX: Final = 10_000


class Hived:
    """Schedules gangs onto the cells of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._proposal: Proposal | None = None
        self._together: Trial | None = None
        self._failed: dict[Shape, int] = {}
        self._sound: dict[Shape, bool] = {}

    def refusal(self, request: GangRequest) -> str | None:
        """Return why a gang could never run, even if everything were free and healthy, or None."""
        return refusal(self.cluster, request)

    def could_run(self, request: GangRequest) -> bool:
        """Return whether a gang breaks no rule and has room if everything is free; quick for one like another."""
        shape = shape_of(request)
        if shape not in self._sound:
            if refusal(self.cluster, request) is not None:
                return False
            _remember(self._sound, shape, True)
        return True

    def schedule(self, request: GangRequest, now_ms: int | None = None) -> Decision:
        """Return where the gang can run and which gangs must leave, or why it must wait. Refuses a broken rule."""
        self.roll_back()
        known = self.cluster.gangs.get(request.id)
        if known is not None:
            if known.state is not State.PREEMPTING:
                return Bind(request.id, self.spots_held(request.id), _chain_of(known))
            return self._continue_preemption(known)
        shape = shape_of(request)
        found = self._too_large(request, shape) or self._place(request, shape, now_ms)
        return found or reason_to_wait(self.cluster, request)

    def place(self, request: GangRequest, now_ms: int | None = None) -> Bind | Preempt | None:
        """Return like `schedule` where a gang that waits can run; None, without a reason, if nowhere now."""
        self.roll_back()
        return self._place(request, shape_of(request), now_ms) if self.could_run(request) else None

    def _too_large(self, request: GangRequest, shape: Shape) -> Wait | None:
        """Return why no part of the cluster is large enough for a gang, or None; raise Refused if it breaks a rule."""
        if shape in self._sound:
            return None
        if (message := broken_rule(self.cluster, request)) is not None:
            raise Refused("InvalidParametersError", message, "correct the request; asking again will not help")
        if (message := too_large(self.cluster, request)) is not None:
            unblock = "smaller or fewer tasks, or a larger promise for its virtual cluster"
            return Wait(request.id, Code.TOO_LARGE, message, unblock)
        _remember(self._sound, shape, True)
        return None

    def schedule_all(
        self, requests: Sequence[GangRequest], now_ms: int | None = None
    ) -> tuple[Bind | Preempt, ...] | Wait:
        """Return decisions on gangs that start together or not at all, or why one must wait. Refuses one that runs."""
        self.roll_back()
        check_together(self.cluster, requests)
        for request in requests:
            if (wait := self._too_large(request, shape_of(request))) is not None:
                return wait
        trial = Trial(self.cluster)
        for request in requests:
            if trial.start(request, now_ms) is None:
                wait = reason_to_wait(self.cluster, request)
                trial.close()
                return wait
        self._together = self.cluster.proposal = trial
        return tuple([_answer(proposal) for proposal in trial.proposals])

    @property
    def proposes_several(self) -> bool:
        """Return whether the last decision was on several gangs and is not committed."""
        return self._together is not None

    def reason_now(self, requests: Sequence[GangRequest]) -> Wait | None:
        """Return why gangs that start together cannot do so now, None if they could. Changes nothing."""
        with Trial(self.cluster) as trial:
            for request in requests:
                if trial.start(request, None) is None:
                    return None if broken_rule(self.cluster, request) else reason_to_wait(self.cluster, request)
        return None

    def commit_all(self, at_ms: int | None = None) -> None:
        """Carry out the decisions of the last `schedule_all`. If one of the gangs waits for victims, all of them do."""
        together, self._together = self._together, None
        if together is None:
            message = "no decision on several gangs is open"
            raise Refused("ConflictJobError", message, "ask for decisions and commit them before any other call")
        self.cluster.proposal = None
        together.keep()
        proposals = together.proposals
        must_wait = any(proposal.victims for proposal in proposals)
        # Guarantees are given to others only when all of these gangs are recorded.
        records = [self._record(proposal, None if must_wait else at_ms) for proposal in proposals]
        for record in records if must_wait else ():
            record.state = State.PREEMPTING
        if any(proposal.touches_others for proposal in proposals):
            self._apply_preemption(proposals)

    def _place(self, request: GangRequest, shape: Shape, now_ms: int | None) -> Bind | Preempt | None:
        freed = self.cluster.freed["" if request.priority < 0 else request.virtual_cluster]
        if self._failed.get(shape) == freed:
            return None
        proposal = decide(self.cluster, request, now_ms)
        if proposal is None:
            _remember(self._failed, shape, freed)
            self.cluster.watch(request)
            return None
        self.propose(proposal)
        return _answer(proposal)

    def propose(self, proposal: Proposal) -> None:
        """Open a decision, which is on the records, so that it can be committed."""
        self._proposal = self.cluster.proposal = proposal
        proposal.name_spots()

    def still_lacks_devices(self, requests: Sequence[GangRequest]) -> bool:
        """Return whether gangs that found no room together find none now for sure; much quicker than `schedule`."""
        if len(requests) > 1:
            return any(missing_devices(self.cluster, request) for request in requests)
        if not missing_devices(self.cluster, requests[0]):
            return False
        self.cluster.watch(requests[0])
        return True

    def forget_failure(self, request: GangRequest) -> None:
        """Forget that a request like this found no room, because devices that were held back no longer are."""
        self._failed.pop(shape_of(request), None)

    def commit(self, gang: str, at_ms: int | None = None) -> None:
        """Carry out the last decision on `gang`: it has its devices, or they are reserved until its victims leave."""
        record = self.cluster.gangs.get(gang)
        if record is not None:
            if record.state is State.PREEMPTING and not record.victims:
                record.state = State.ALLOCATED
                record.since_ms = at_ms
            return
        proposal = self._proposal
        if proposal is None or proposal.request.id != gang:
            message = f"no decision on gang {gang!r} is open"
            raise Refused("ConflictJobError", message, "ask for a decision and commit it before any other call")
        self._proposal = self.cluster.proposal = None
        self._record(proposal, at_ms)
        if proposal.touches_others:
            self._apply_preemption((proposal,))

    def _record(self, proposal: Proposal, at_ms: int | None) -> GangRecord:
        """Record the gang of a decision whose changes are on the books."""
        record = GangRecord(proposal.request, list(proposal.parts), since_ms=at_ms, spots=proposal.spots)
        self.cluster.remember(record)
        self.cluster.rebound |= proposal.rebound
        return record

    def _apply_preemption(self, proposals: Sequence[Proposal]) -> None:
        for name in record_preemption(self.cluster, proposals):
            self.release(name)
        for proposal in proposals:
            # Gangs that other cells serve now may leave room where there was none.
            self.cluster.note_freed(proposal.request.virtual_cluster, [proposal.chain])
        self._settle_guarantees()

    def roll_back(self) -> None:
        """Undo the last decision if it is not committed."""
        proposal, self._proposal, self.cluster.proposal = self._proposal, None, None
        if proposal is not None:
            proposal.undo()
        if self._together is not None:
            self._together.close()
            self._together = None

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """Free the devices of these members (all when None). Ignores unknown gangs and refuses unknown members."""
        leaving = None if members is None else list(members)
        self.roll_back()
        cluster = self.cluster
        record = cluster.gangs.get(gang)
        if record is None:
            return
        request = record.request
        all_members = range(len(record.parts))
        unknown = leaving and [member for member in leaving if not isinstance(member, int) or member not in all_members]
        if unknown:
            message = f"gang {gang!r} has members 0 to {len(all_members) - 1}, not {unknown[0]}"
            raise Refused("InvalidParametersError", message, "name the members that left")
        freed = 0
        chains = {}
        spots = list(record.spots)
        for member in all_members if leaving is None else leaving:
            part = record.parts[member]
            spots[member] = None
            if part is not None:
                remove(gang, request.priority, part)
                record.parts[member] = None
                record.lost.pop(member, None)
                chains[part.node_cell.chain.spec.name] = part.node_cell.chain
                freed += part.mask.bit_count()
        if request.priority < 0:
            cluster.borrowed[request.virtual_cluster] -= freed
        if leaving is not None:
            record.spots = tuple(spots)
        if leaving is None or not any(spots):
            cluster.forget(record)
            self._reinstate(sorted(record.victims))
        cluster.note_freed(request.virtual_cluster, chains.values())
        self._settle_guarantees()

    def _reinstate(self, victims: list[str]) -> None:
        """Return lost guarantees to gangs that are no longer being preempted, as soon as they are available."""
        for name in victims:
            record = self.cluster.gangs.get(name)
            if record is not None and record.lost and not record.threats and record.lazily_preempted_by is None:
                self.cluster.demote(record, "")

    def _settle_guarantees(self, only: str | None = None) -> None:
        """Return lost guarantees to running gangs where possible, the highest priority first."""
        if self.cluster.demoted:
            for name in sorted(settle_guarantees(self.cluster, only)):
                self.cluster.gangs[name].parts = []
                self.release(name)

    def cancel(self, gang: str) -> None:
        """Cancel a gang; its victims may stay. One that runs is released."""
        self.release(gang)

    def checkpointed(self, gang: str, at_ms: int) -> None:
        """Record that a gang saved its work: what it did before is not lost if it must leave."""
        record = self.cluster.gangs.get(gang)
        if record is not None:
            record.checkpoint_ms = at_ms

    def set_node(
        self, name: str, *, is_healthy: bool = True, is_draining: bool = False, bad_devices: Iterable[int] = ()
    ) -> None:
        """Set the health of a node. What runs there keeps running; nothing new is placed on what is bad or draining."""
        self.set_nodes({name: NodeHealth(is_healthy, is_draining, frozenset(bad_devices))})

    def set_nodes(self, nodes: Mapping[str, NodeHealth]) -> None:
        """Set the health of several nodes. Gangs lose what was reserved for them on devices that are bad now."""
        self.roll_back()
        for gang in set_health(self.cluster, nodes):
            self.release(gang)

    def restore(
        self,
        request: GangRequest,
        spots: Sequence[Spot | None],
        since_ms: int | None = None,
        cell_types: Sequence[str | None] = (),
    ) -> bool:
        """Add a gang that runs at `spots` already; return whether it has its guarantee.

        A spot is None for a member that is over. `cell_types` names, by member, the type of the promised cell that
        serves it, if known.
        """
        self.roll_back()
        if request.id in self.cluster.gangs:
            return self.cluster.gangs[request.id].lazily_preempted_by is None
        restore(self.cluster, request, spots, since_ms, cell_types)
        if NO_GUARANTEE not in cell_types:
            self._settle_guarantees(request.id)
        return self.cluster.gangs[request.id].lazily_preempted_by is None

    def restored(self) -> None:
        """End a restore: gangs that had no guarantee before get one from what the others leave."""
        self.roll_back()
        self._settle_guarantees()

    def binding(self, gang: str) -> tuple[str | None, ...]:
        """Return, by member, the type of the promised cell that serves it, as `restore` takes it."""
        record = self.cluster.gangs.get(gang)
        return () if record is None else binding(record)

    def rebound(self) -> set[str]:
        """Return the gangs whose guarantees changed since the last call; some of them may be over."""
        changed, self.cluster.rebound = self.cluster.rebound, set()
        return changed

    def reconfigure(self, config: HivedConfig) -> Reconfigured:
        """Switch to another configuration; no gang is stopped, and the answer names those that lost a guarantee."""
        self.roll_back()
        self._failed, self._sound = {}, {}
        gangs = self.cluster.gangs
        if config.has_cells_of(self.cluster.config) and all(g.state is State.ALLOCATED for g in gangs.values()):
            self.cluster.config = config
            return Reconfigured(tuple(sorted(gangs)), (), ())
        self.cluster, report = moved_to(config, self.cluster)
        return report

    def change(self, request: GangRequest) -> bool:
        """Change the priority or virtual cluster of a running gang; return whether it has its guarantee.

        It stays where it is. Nothing changes for a gang that is being preempted, or if the change is refused.
        """
        self.roll_back()
        record = changed(self.cluster, request)
        if record.state is not State.ALLOCATED:
            return record.lazily_preempted_by is None
        types = [type_served(record, member) for member in range(len(record.parts))]
        request = of_its_type(request, record.parts)
        self.release(request.id)
        restore(self.cluster, request, record.spots, record.since_ms, types)
        self.cluster.gangs[request.id].checkpoint_ms = record.checkpoint_ms
        self._settle_guarantees()
        return self.cluster.gangs[request.id].lazily_preempted_by is None

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as plain data that JSON can hold."""
        self.roll_back()
        return dump(self.cluster)

    @classmethod
    def from_snapshot(cls, data: dict[str, Any]) -> Hived:
        """Return a scheduler with the state of a snapshot."""
        return cls(load(data))

    def _continue_preemption(self, record: GangRecord) -> Decision:
        """Return the decision on a gang that waits for its victims: to wait on, or to start when all have left."""
        gang = record.request.id
        spots = self.spots_held(gang)
        if record.victims:
            return Preempt(gang, tuple(sorted(record.victims)), spots, _chain_of(record))
        return Bind(gang, spots, _chain_of(record))

    def spots_held(self, gang: str) -> tuple[Spot, ...]:
        """Return where the members of a gang that are not over run, in order."""
        return tuple([spot for spot in self.cluster.gangs[gang].spots if spot is not None])


def _remember(memory: dict[Shape, T], shape: Shape, answer: T) -> None:
    if len(memory) >= REMEMBERED_MAX:
        memory.clear()
    memory[shape] = answer


def _answer(proposal: Proposal) -> Bind | Preempt:
    gang, chain = proposal.request.id, proposal.chain.spec.name
    if not proposal.touches_others:
        return Bind(gang, proposal.spots, chain)
    lazily, displaced = tuple(sorted(proposal.lazily_preempted)), tuple(sorted(proposal.displaced))
    if proposal.victims:
        return Preempt(gang, tuple(sorted(proposal.victims)), proposal.spots, chain, lazily, displaced)
    return Bind(gang, proposal.spots, chain, lazily, displaced)


def _chain_of(record: GangRecord) -> str:
    return next((part.node_cell.chain.spec.name for part in record.parts if part is not None), "")
