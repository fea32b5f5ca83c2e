"""Which pods are measured next: those that are waited for, then those that were measured the longest time ago.

A pod or node that fails is left alone, twice as long each time. The more attempts fail, the fewer are made: a cluster
in which no pod can be entered costs one attempt in a round.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.system.pauses import let_others_go_first

LOOKED_AT_AT_ONCE: Final = 500
"""So many pods are looked at before others go on."""
AGAIN_S: Final = 10.0
AGAIN_MAX_S: Final = 300.0
OPENED_FIRST: Final = 16
OPENED_MAX: Final = 60
"""How many connections a round may open: each costs the server some milliseconds."""
_FAILURE: Final = 2
"""A failure takes as many from the next rounds; a success adds one."""
FIRST_MS: Final = 120_000
"""How much longer the others wait for their turn."""


@dataclass(slots=True)
class _Pause:
    failures: int = 0
    until_s: float = 0.0

    def prolong(self, now_s: float) -> None:
        self.until_s = now_s + min(AGAIN_S * 2.0**self.failures, AGAIN_MAX_S)
        self.failures = min(self.failures + 1, 10)


class Turns:
    """How many pods are tried, and which; times are those of the event loop's clock."""

    def __init__(self) -> None:
        self.opened_max = OPENED_FIRST
        """How many the next round may try."""
        self._pods: dict[str, _Pause] = {}
        self._nodes: dict[str, _Pause] = {}

    async def choose(
        self,
        waiting: Iterable[PodAttempt],
        room: int,
        now_s: float,
        first: Collection[str],
        measured_at_ms: Callable[[str], int],
    ) -> list[PodAttempt]:
        """Return the pods to try now, at most `room`; the jobs in `first` need it most.

        Thousands may wait, so others go on between parts of them.
        """
        # Nodes come and go; one that was removed is not remembered.
        self._nodes = {node: pause for node, pause in self._nodes.items() if now_s < pause.until_s + AGAIN_MAX_S}
        most = min(room, self.opened_max)
        # The last of the chosen is the first of the heap. The others need not be kept until all were looked at.
        chosen: list[tuple[int, int, PodAttempt]] = []
        for number, each in enumerate(waiting, start=1):
            if number % LOOKED_AT_AT_ONCE == 0:
                await let_others_go_first()
            if not self._is_ready(each, now_s):
                continue
            at_ms = measured_at_ms(each.name) - FIRST_MS * (each.key.job in first)
            if len(chosen) < most:
                heapq.heappush(chosen, (-at_ms, -number, each))
            elif chosen and -at_ms > chosen[0][0]:
                heapq.heapreplace(chosen, (-at_ms, -number, each))
        return [each for *_, each in sorted(chosen, reverse=True)]

    def succeeded(self, attempt: PodAttempt) -> None:
        """Note the first sample of a turn."""
        self.opened_max = min(self.opened_max + 1, OPENED_MAX)
        self._pods.pop(attempt.name, None)
        self._nodes.pop(attempt.node, None)

    def failed(self, attempt: PodAttempt, now_s: float, *, was_opened: bool, was_measured: bool) -> None:
        """Note that a turn failed; where no connection was opened, the node may be at fault."""
        self._pods.setdefault(attempt.name, _Pause()).prolong(now_s)
        if not was_opened:
            self._nodes.setdefault(attempt.node, _Pause()).prolong(now_s)
        if not was_measured:
            self.opened_max = max(1, self.opened_max - _FAILURE)

    def forget(self, pods: Iterable[str]) -> None:
        """Forget pods that do not run any more."""
        for name in pods:
            self._pods.pop(name, None)

    def remembered(self) -> Collection[str]:
        """Return the pods that failed."""
        return self._pods.keys()

    def _is_ready(self, attempt: PodAttempt, now_s: float) -> bool:
        if not self._pods and not self._nodes:
            return True
        pod, node = self._pods.get(attempt.name), self._nodes.get(attempt.node)
        return (pod is None or now_s >= pod.until_s) and (node is None or now_s >= node.until_s)
