"""Sends each round of values to Prometheus, VictoriaMetrics or another store, by Prometheus's remote write 1.0.

A message of protocol buffers, compressed with Snappy. What cannot be sent waits, within a bound on memory, and is sent
in its order; what the store refuses is dropped and logged. The message has four kinds of fields, which are written
here. A series that ends gets Prometheus's marker for that, so that no chart draws it on.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import httpx
import structlog

from openpai.protocol.errors import BadConfiguration
from openpai.series.labels import NO_LABELS, Labels
from openpai.series.model import Reading
from openpai.series.rounds import Round, published

WAITING_BYTES_MAX: Final = 32 << 20
"""How much waits for a store that is away: with 12,000 series about an hour."""
ROUNDS_MAX: Final = 6
"""How many rounds wait to be encoded while a message is being sent."""
SERIES_AT_ONCE: Final = 5_000
AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 30.0
_PATIENCE: Final = httpx.Timeout(20.0, connect=5.0)
_HEADERS: Final = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "User-Agent": "openpai",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
_ENDED: Final = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
"""The value by which Prometheus knows that a series has ended."""
_log: Final = structlog.get_logger(__name__)
Key = tuple[str, Labels]


class RemoteWriter:
    """Sends rounds to one address."""

    def __init__(
        self,
        url: str,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        sleep: Callable[[float], Any] = asyncio.sleep,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        """Raise Refused if the library is missing."""
        try:
            from cramjam import snappy
        except ImportError as error:
            advice = "install it with: pip install 'openpai[remote-write]'"
            raise BadConfiguration("--remote-write-url needs cramjam", advice) from error
        self._compress: Callable[[bytes], Any] = snappy.compress_raw
        self._url = url
        self._transport = transport
        self._sleep = sleep
        self._waiting_bytes_max = waiting_bytes_max
        self._rounds: deque[Round] = deque()
        self._bodies: deque[tuple[bytes, int]] = deque()
        """Messages, each with its number of samples."""
        self._waiting_bytes = 0
        self._work = asyncio.Event()
        self._known: dict[Key, bytes] = {}
        self._newest: set[Key] = set()
        self._is_away = False
        self.dropped = 0
        """Samples that the store never took."""

    def take(self, now: Round) -> None:
        """Send a round soon."""
        if len(self._rounds) == ROUNDS_MAX:
            self.dropped += len(_values(self._rounds.popleft()))
        self._rounds.append(now)
        self._work.set()

    def readings(self) -> Iterator[Reading]:
        """Yield what is measured of the sending itself."""
        yield Reading(
            NO_LABELS,
            {
                "pai_remote_write_waiting_bytes": float(self._waiting_bytes),
                "pai_remote_write_dropped_samples_total": float(self.dropped),
            },
        )

    async def run(self) -> None:
        """Send what there is, until cancelled."""
        async with httpx.AsyncClient(timeout=_PATIENCE, transport=self._transport, headers=_HEADERS) as http:
            pause_s = AGAIN_S
            while True:
                await self._encode_all()
                if not self._bodies:
                    await self._work.wait()
                elif await self._is_done_with(http, *self._bodies[0]):
                    pause_s = AGAIN_S
                    self._drop_oldest()
                else:
                    await self._sleep(pause_s)
                    pause_s = min(2 * pause_s, AGAIN_MAX_S)

    async def _encode_all(self) -> None:
        self._work.clear()
        while self._rounds:
            bodies = await asyncio.to_thread(self._encoded, self._rounds.popleft())
            self._bodies.extend(bodies)
            self._waiting_bytes += sum(len(body) for body, _ in bodies)
            while self._waiting_bytes > self._waiting_bytes_max:
                self.dropped += self._drop_oldest()

    def _drop_oldest(self) -> int:
        """Remove the oldest message; return its number of samples."""
        body, samples = self._bodies.popleft()
        self._waiting_bytes -= len(body)
        return samples

    async def _is_done_with(self, http: httpx.AsyncClient, body: bytes, samples: int) -> bool:
        """Send a message; return whether it was taken or will never be."""
        try:
            answer = await http.post(self._url, content=body)
        except httpx.HTTPError as error:
            self._note_away(type(error).__name__)
            return False
        if answer.status_code == 429 or answer.status_code >= 500:
            self._note_away(f"status {answer.status_code}")
            return False
        if answer.is_error or answer.is_redirect:
            self.dropped += samples
            _log.warning("the store of --remote-write-url refused values", status=answer.status_code,
                         reason=answer.text[:300])  # fmt: skip
        if self._is_away:
            _log.info("the store of --remote-write-url takes values again")
        self._is_away = False
        return True

    def _note_away(self, reason: str) -> None:
        if not self._is_away:
            _log.warning("the store of --remote-write-url takes no values now; they wait", reason=reason)
        self._is_away = True

    def _encoded(self, now: Round) -> list[tuple[bytes, int]]:
        values = _values(now)
        series = [*values.items(), *((key, _ENDED) for key in self._newest - values.keys())]
        self._known = {key: self._known.get(key) or _labels(key) for key, _ in series}
        self._newest = set(values)
        at = b"\x10" + _varint(now.at_ms)
        parts = [
            _field(1, self._known[key] + _field(2, b"\x09" + struct.pack("<d", value) + at)) for key, value in series
        ]
        return [(bytes(self._compress(b"".join(part))), len(part)) for part in _parts(parts, SERIES_AT_ONCE)]


def _values(now: Round) -> dict[Key, float]:
    return {(name, labels): value for name, labels, value in published(now)}


def _parts(rows: list[bytes], size: int) -> Iterable[list[bytes]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _labels(key: Key) -> bytes:
    """Return the labels of a series, sorted by name, as fields of a message."""
    name, labels = key
    pairs = sorted((("__name__", name), *labels.pairs))
    return b"".join(_field(1, _field(1, word.encode()) + _field(2, value.encode())) for word, value in pairs)


def _field(number: int, content: bytes) -> bytes:
    """Return a field of bytes, or of a message."""
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
