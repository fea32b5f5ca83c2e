"""Whether to try again after a failure, and when.

The cause decides. What the platform did to a job is tried again without being counted, with growing delays, up to a
ceiling. What the user did is not tried again. An unknown cause is tried again as often as the owner allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32

from openpai.lifecycle.model import Behavior, Diagnosis, Retries


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and after which delays (in milliseconds) the platform repeats what was not the user's fault."""

    free_max: int = 10
    """Ceiling on uncounted retries of one job, and of one task of a job without gang allocation."""
    delay_first_ms: int = 1_000
    delay_max_ms: int = 300_000
    conflict_delay_min_ms: int = 60_000
    conflict_delay_max_ms: int = 900_000


RETRY_POLICY: Final = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after `delay_ms`, with the retry counters as they are then."""

    delay_ms: int
    retries: Retries


def again(
    diagnosis: Diagnosis | None, made: Retries, counted_max: int, who: str, policy: RetryPolicy = RETRY_POLICY
) -> Again | None:
    """Return when to try again after a failure, or None for no retry.

    `who` names the job, to spread the delays of jobs with a conflict.
    """
    behavior = diagnosis.behavior if diagnosis else Behavior.UNKNOWN
    if behavior is Behavior.UNKNOWN and made.counted < counted_max:
        return Again(0, Retries(made.counted + 1, made.free))
    if behavior in (Behavior.TRANSIENT, Behavior.TRANSIENT_CONFLICT) and made.free < policy.free_max:
        delay_ms = min(policy.delay_first_ms << made.free, policy.delay_max_ms)
        if behavior is Behavior.TRANSIENT_CONFLICT:
            span_ms = policy.conflict_delay_max_ms - policy.conflict_delay_min_ms + 1
            delay_ms = policy.conflict_delay_min_ms + crc32(f"{who}/{made.free}".encode()) % span_ms
        return Again(delay_ms, Retries(made.counted, made.free + 1))
    return None
