"""A made-up driver with two cards, whose errors, heat and XID events the test sets, and a clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .test_task_use import TIMEOUT, Nvml, NVMLError


class StillClock:
    """A clock that the test sets."""

    now = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.now


class Checked(Nvml):
    """The driver."""

    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    nvmlEventTypeXidCriticalError = 8  # noqa: N815  NVML's name

    def __init__(self, *, has_events: bool = True) -> None:
        super().__init__()
        self.has_events = has_events
        self.lost: set[int] = set()
        self.errors: dict[int, int] = {}
        self.reasons: dict[int, int] = {}
        self.events: list[tuple[int, int]] = []
        self.watched: list[int] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("nvmlDevice") or name.startswith("nvmlDeviceGetHandle"):
            return found

        def asked(handle: Any, *more: Any) -> Any:
            if handle in self.lost:
                raise NVMLError
            return found(handle, *more)

        return asked

    def nvmlDeviceGetClockInfo(self, handle: object, kind: int) -> int:
        return 1980

    def nvmlDeviceGetPerformanceState(self, handle: object) -> int:
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self.reasons.get(handle, 0)

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, since: int) -> int:
        # Corrected errors are harmless.
        return self.errors.get(handle, 0) if kind == 1 else 1000

    def nvmlDeviceIsMigDeviceHandle(self, handle: object) -> int:
        return int(str(handle).startswith("MIG-"))

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> int:
        return int(handle.removeprefix("MIG-")[0])

    def nvmlDeviceGetPciInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(busId=f"00000000:{0x3B + handle:02X}:00.0".encode())

    def nvmlEventSetCreate(self) -> object:
        if not self.has_events:
            raise NVMLError
        return "set"

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: object) -> None:
        assert (kinds, events) == (self.nvmlEventTypeXidCriticalError, "set")
        self.watched.append(handle)

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        assert (events, timeout_ms) == ("set", 0)
        if not self.events:
            raise NVMLError(TIMEOUT)
        device, number = self.events.pop(0)
        return SimpleNamespace(device=device, eventData=number)
