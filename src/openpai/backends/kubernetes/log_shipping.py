"""Brings the logs of pods to the server while they grow, so that they outlive the pod and its node.

A log is followed through the API of pods. A stream that breaks is opened again where it broke. There is a bound on the
streams that are open at the same time: the logs of more pods take turns to be read, and are read when they end. There
is a bound on these reads, too, so the logs of many thousand pods are read less often until they end, and the less often
the more end. A stream that is free goes to the log whose turn is next, in place of a read. A log that waits for its
turn costs a small object and no task.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from openpai.backends.kubernetes.log_reading import LogReading, PodLogs, Shipment
from openpai.lifecycle.model import AttemptKey
from openpai.system.pauses import Precedence
from openpai.system.supervision import background

STREAMS_MAX: Final = 300
POLLS_AT_ONCE: Final = 8
ENDS_AT_ONCE: Final = 16
POLL_EVERY_S: Final = 5.0
POLLS_PER_S: Final = 40.0
"""An API server must not spend its time on the logs of thousands of pods that are not followed. Reads of logs that have
ended and streams that are opened count, too."""
POLLS_LEAST_PER_S: Final = 10.0
"""So many logs take their turns however many end."""
ADOPTED_AFTER_S: Final = 5.0
"""How long the logs of pods that an earlier server left wait: a server that starts has its first decisions to make."""
FREED_AFTER_S: Final = 1.0
"""How long a stream that became free waits for a log that begins, before it follows one whose turn is not yet due."""
ENDS_AFTER_S: Final = 1.0
"""How long the log of a container that has ended waits to be read, unless it is asked for before."""
_SPENT_MAX_S: Final = 1.0
"""A burst of ends holds turns back for no longer."""
_OPENED_PER_S: Final = 60.0
"""A stream costs both sides a handshake, and the API server another one with the node."""


class LogShipper:
    """Ships the logs of many pods."""

    def __init__(
        self,
        logs: PodLogs,
        root: Path,
        *,
        streams: int = STREAMS_MAX,
        poll_every_s: float = POLL_EVERY_S,
        precedence: Precedence | None = None,
    ) -> None:
        """Each log gives way to `precedence` when it begins to be read or followed."""
        self._precedence = precedence
        self._reading = LogReading(logs, root)
        self._streams = streams
        self._poll_every_s = poll_every_s
        self._shipments: dict[AttemptKey, Shipment] = {}
        self._following: set[Shipment] = set()
        self._waiting: dict[Shipment, None] = {}
        """Logs for which no stream is free."""
        self._turns: list[tuple[float, int, Shipment]] = []
        """When each of them is read next, as a heap."""
        self._turn = 0
        self._adopted_after_s = 0.0
        self._free_since_s = 0.0
        """When the last of all streams was taken no longer."""
        self._polled_at_s = 0.0
        """When a log took its turn last."""
        self._spent_until_s = 0.0
        """Until when as many logs were asked for as may be."""
        self._poller: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._polls = asyncio.Semaphore(POLLS_AT_ONCE)
        self._ended: deque[Shipment] = deque()
        """Those of them whose container has ended: a task may wait for its log, which waits for no other."""
        self._readers: set[asyncio.Task[None]] = set()
        self._complete: set[Shipment] = set()
        """Those that a reader has just read to their ends."""
        self._ends = 0

    @contextlib.contextmanager
    def adopting(self, after_s: float = ADOPTED_AFTER_S) -> Iterator[None]:
        """Let logs that are shipped from here on begin a little later, unless their containers have ended."""
        self._adopted_after_s = after_s
        try:
            yield
        finally:
            self._adopted_after_s = 0.0

    def ship(self, key: AttemptKey, pod: str) -> None:
        """Begin to ship the log of a pod whose container runs or ran, unless that has begun."""
        if key in self._shipments:
            return
        shipment = self._shipments[key] = Shipment(key, pod)
        after_s = self._adopted_after_s
        if len(self._following) < self._streams:
            self._spend()
            self._follow(shipment, after_s and after_s + len(self._following) / _OPENED_PER_S)
        else:
            self._waiting[shipment] = None
            self._take_turn(shipment, after_s + self._poll_every_s)

    def note_growth(self, grown: set[AttemptKey]) -> None:
        """Add each attempt whose files grow from now on."""
        self._reading.growth.append(grown)

    def ended(self, key: AttemptKey) -> None:
        """Report that the container has ended, so its log is read to the end and no further.

        What waits for the log says so by `finished`. Until then the log waits a moment, with those of its gang: what
        takes the place of the gang is decided first.
        """
        shipment = self._shipments.get(key)
        if shipment is None or shipment.has_ended:
            return
        if not shipment.is_done:
            # Before the end is recorded, so a reader who knows of the end waits for the rest of the log.
            self._reading.expect(shipment)
        shipment.has_ended = True
        if shipment.due is not None:
            shipment.due.set()
        shipment.expect_end()
        if shipment in self._waiting:
            asyncio.get_running_loop().call_later(ENDS_AFTER_S, self._read_to_end, shipment)
        else:
            # Its stream is followed by a read of what came after a break, if there was one: nothing else tells.
            self._spend()

    async def finished(self, key: AttemptKey, patience_s: float, *, hurries: bool = True) -> bool:
        """Wait until the log of an ended container is complete, or cannot be; unless it `hurries`, when it is its turn.

        Return False if nothing of it arrives for `patience_s`.
        """
        shipment = self._shipments.get(key)
        if shipment is None or shipment.is_done:
            return True
        shipment.done = shipment.done or asyncio.Event()
        if hurries and shipment.has_ended and shipment in self._waiting:
            self._read_to_end(shipment)
        writes = -1
        while not shipment.is_done and shipment.writes != writes:
            writes = shipment.writes
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await shipment.done.wait()
        return shipment.is_done

    async def note(self, key: AttemptKey, pod: str, text: str) -> None:
        """Write a message of the platform to the log of a running attempt, if that can be written."""
        shipment = self._shipments.get(key)
        await self._reading.note(shipment or Shipment(key, pod), text)

    def is_complete(self, key: AttemptKey) -> bool:
        """Return whether nothing of a log is on its way any more: all of it was read, or its end is not known."""
        shipment = self._shipments.get(key)
        return shipment is None or shipment.is_done or not shipment.has_ended

    def forget(self, key: AttemptKey) -> None:
        """Stop to ship a log; what was shipped stays."""
        shipment = self._shipments.pop(key, None)
        if shipment is None:
            return
        self._waiting.pop(shipment, None)
        if shipment.task is not None:
            shipment.task.cancel()

    async def close(self) -> None:
        """Stop to ship. A later server goes on where this one stopped."""
        followers = [shipment.task for shipment in self._shipments.values() if shipment.task is not None]
        self._waiting.clear()
        self._turns.clear()
        self._ended.clear()
        tasks = [*followers, *self._readers, *([self._poller] if self._poller is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Logs that are followed.

    def _follow(self, shipment: Shipment, after_s: float = 0.0) -> None:
        self._following.add(shipment)
        shipment.due = asyncio.Event()
        shipment.task = background(f"log of {shipment.pod}", self._follow_to_end(shipment, shipment.due, after_s))
        # Called even if a log is forgotten before its task began.
        shipment.task.add_done_callback(lambda _: self._end_stream(shipment))

    async def _follow_to_end(self, shipment: Shipment, due: asyncio.Event, after_s: float) -> None:
        if after_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(after_s):
                    await due.wait()
        await self._give_way()
        while not await self._reading.once(shipment, follow=True):
            await _pause(shipment)
        shipment.finish()

    def _end_stream(self, shipment: Shipment) -> None:
        if len(self._following) == self._streams:
            self._free_since_s = asyncio.get_running_loop().time()
        self._following.discard(shipment)
        self._wake_poller()

    # Logs that take turns.

    def _take_turn(self, shipment: Shipment, after_s: float) -> None:
        self._turn += 1
        due_s = asyncio.get_running_loop().time() + after_s
        is_next = not self._turns or due_s < self._turns[0][0]
        heapq.heappush(self._turns, (due_s, self._turn, shipment))
        if is_next:
            self._wake_poller()

    def _wake_poller(self) -> None:
        """Let the time of the next turn be worked out again."""
        self._woken.set()
        if self._turns and (self._poller is None or self._poller.done()):
            self._poller = background("turns of logs", self._poll())

    async def _poll(self) -> None:
        """Read or follow each log when it is its turn, until none waits for one."""
        loop = asyncio.get_running_loop()
        while self._turns:
            self._woken.clear()
            if (wait_s := self._next_turn_s() - loop.time()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._woken.wait()
                continue
            await self._polls.acquire()
            _, _, shipment = heapq.heappop(self._turns)
            if shipment not in self._waiting or shipment.has_ended:
                self._polls.release()
                continue
            self._polled_at_s = loop.time()
            self._spend()
            if len(self._following) < self._streams:
                self._polls.release()
                del self._waiting[shipment]
                self._follow(shipment)
            else:
                self._start(shipment, self._polls.release)

    def _next_turn_s(self) -> float:
        """Return when the next log takes its turn."""
        due_s = self._turns[0][0]
        if len(self._following) < self._streams:
            due_s = min(due_s, self._free_since_s + FREED_AFTER_S)
        return max(due_s, min(self._spent_until_s, self._polled_at_s + 1 / POLLS_LEAST_PER_S))

    def _spend(self) -> None:
        """Count a log that is asked for: those whose turn comes wait the longer."""
        now_s = asyncio.get_running_loop().time()
        self._spent_until_s = min(max(self._spent_until_s, now_s) + 1 / POLLS_PER_S, now_s + _SPENT_MAX_S)

    def _read_to_end(self, shipment: Shipment) -> None:
        self._ended.append(shipment)
        self._start_readers()

    def _start_readers(self) -> None:
        while self._ended and self._ends < ENDS_AT_ONCE:
            shipment = self._ended.popleft()
            if shipment in self._waiting and not shipment.is_read:
                self._ends += 1
                self._spend()
                self._start(shipment, self._end_reader)

    def _end_reader(self) -> None:
        self._ends -= 1
        self._start_readers()

    def _start(self, shipment: Shipment, release: Callable[[], None]) -> None:
        """Read a log once, then see to its next turn and `release` the place that it took."""
        shipment.is_read = True
        shipment.task = reader = background(f"log of {shipment.pod}", self._read(shipment))
        self._readers.add(reader)
        # Called even if a log is forgotten before its task began.
        reader.add_done_callback(partial(self._was_read, shipment, release))

    async def _give_way(self) -> None:
        if self._precedence is not None:
            await self._precedence.give_way()

    async def _read(self, shipment: Shipment) -> None:
        await self._give_way()
        if await self._reading.once(shipment, follow=False):
            self._complete.add(shipment)

    def _was_read(self, shipment: Shipment, release: Callable[[], None], reader: asyncio.Task[None]) -> None:
        self._readers.discard(reader)
        shipment.is_read = False
        shipment.task = None
        is_done = shipment in self._complete
        self._complete.discard(shipment)
        self._go_on(shipment, is_done=is_done)
        release()

    def _go_on(self, shipment: Shipment, *, is_done: bool) -> None:
        if shipment not in self._waiting:
            # It was forgotten meanwhile.
            return
        if is_done:
            shipment.finish()
            del self._waiting[shipment]
        elif not shipment.has_ended:
            if not shipment.failures:
                # What it knows of its files is read again with its next turn.
                shipment.log = None
            again_s = shipment.again_s() if shipment.failures else 0.0
            self._take_turn(shipment, max(self._poll_every_s, len(self._waiting) / POLLS_PER_S, again_s))
        else:
            again_s = shipment.again_s() if shipment.failures else 0.0
            asyncio.get_running_loop().call_later(again_s, self._read_to_end, shipment)


async def _pause(shipment: Shipment) -> None:
    """Wait before a log is followed again, until it is due or its container ends."""
    if shipment.has_ended or shipment.due is None:
        await asyncio.sleep(shipment.again_s() if shipment.failures else 0)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(shipment.again_s()):
            await shipment.due.wait()
