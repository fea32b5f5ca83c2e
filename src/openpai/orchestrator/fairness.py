"""Reports users to the scheduler: how much each may run at a time, and how much each used lately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from openpai.access.quotas import Quota
from openpai.lifecycle.lemons import THRESHOLD
from openpai.orchestrator.applying import describe_again
from openpai.orchestrator.leader import Leader
from openpai.ports.cluster_settings import ACCURACY, FAIRNESS, LEMON_POLICY, ORDERS, Setting
from openpai.ports.usage import UseRow
from openpai.scheduler.config.model import VirtualSpec
from openpai.scheduler.interface import Amount
from openpai.scheduler.model import Ask, Gang, Limit, Order
from openpai.scheduler.queue.fairness import HALF_LIFE_MS

HALF_LIVES: Final = 4
"""Older use would count for less than a sixteenth."""
RUN_TIMES: Final = 5_000
"""The number of newest finished jobs whose run times are read; the scheduler keeps few more."""
LIMITS: Final = (FAIRNESS, LEMON_POLICY, ORDERS)
"""The settings that are reported with limits."""
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


async def learn_limits(leader: Leader) -> None:
    """Read limits, orders and fairness, and report changed ones to the scheduler."""
    limits = await read_limits(leader)
    use_limits(leader, limits, await leader.settings.settings(*LIMITS))


async def read_limits(leader: Leader) -> tuple[Limit, ...]:
    """Return the limits on GPUs at a time that are set."""
    return limits_of(await leader.usage.quotas()) if leader.usage is not None else ()


def use_limits(leader: Leader, limits: tuple[Limit, ...], settings: Mapping[str, Setting]) -> None:
    """Report changed limits, orders and fairness to the scheduler."""
    sharing, setting = leader.sharing, settings.get(ORDERS)
    half_life_ms = _half_life_ms(settings.get(FAIRNESS))
    # What was set by command holds before what the configuration says.
    clusters = sharing.arrangement.config.virtual_clusters if sharing.arrangement.config is not None else {}
    orders = {name: spec.order for name, spec in clusters.items() if spec.order is not None} | orders_of(setting)
    interruptible = interruptible_of(setting, clusters)
    if limits != sharing.limits:
        leader.scheduler.set_limits(limits)
        sharing.limits = limits
        leader.nudges.work.set()
    if half_life_ms != sharing.half_life_ms:
        leader.scheduler.set_fairness(half_life_ms)
        sharing.half_life_ms = half_life_ms
        leader.nudges.work.set()
    if orders != sharing.orders:
        leader.scheduler.set_orders(orders)
        sharing.orders = orders
        leader.nudges.work.set()
    sharing.hang_minutes = hang_minutes_of(setting)
    policy = settings.get(LEMON_POLICY)
    leader.lemons.set_threshold(THRESHOLD if policy is None else float(policy.body["threshold"]))
    if leader.lemons.must_judge:
        leader.nudges.work.set()
    movable = movable_of(setting, clusters)
    if movable != sharing.movable:
        leader.scheduler.set_movable(movable)
        sharing.movable = movable
        leader.nudges.work.set()
    if interruptible != sharing.interruptible:
        changed, sharing.interruptible = interruptible ^ sharing.interruptible, interruptible
        for record in list(leader.active.records.values()):
            if record.virtual_cluster in changed:
                describe_again(leader, record)
        leader.nudges.work.set()


def _half_life_ms(setting: Setting | None) -> int | None:
    hours = setting.body.get("halfLifeHours") if setting is not None else HALF_LIFE_MS / _HOUR_MS
    return None if hours is None else round(hours * _HOUR_MS)


def orders_of(setting: Setting | None) -> dict[str, Order]:
    """Return the order of each virtual cluster that has one set."""
    return {name: Order(order) for name, order in setting.body["orders"].items()} if setting is not None else {}


def hang_minutes_of(setting: Setting | None) -> dict[str, float]:
    """Return after how many minutes a job counts as one that hangs, for the virtual clusters that have it set."""
    return dict(setting.body.get("hangMinutes", {})) if setting is not None else {}


def interruptible_of(setting: Setting | None, clusters: Mapping[str, VirtualSpec]) -> frozenset[str]:
    """Return the virtual clusters whose jobs may be interrupted, by what was set and by the configuration."""
    return _named({name: spec.is_interruptible for name, spec in clusters.items()}, setting, "interruptible")


def movable_of(setting: Setting | None, clusters: Mapping[str, VirtualSpec]) -> frozenset[str]:
    """Return the virtual clusters whose interruptible jobs may be moved, by command or by the configuration."""
    return _named({name: spec.moves_jobs for name, spec in clusters.items()}, setting, "moveJobs")


def _named(configured: Mapping[str, bool], setting: Setting | None, key: str) -> frozenset[str]:
    known = {**configured, **(setting.body.get(key, {}) if setting is not None else {})}
    return frozenset(name for name, is_on in known.items() if is_on)


def limits_of(quotas: tuple[Quota, ...]) -> tuple[Limit, ...]:
    """Return the limits on GPUs at a time that quotas set."""
    # A user's own quota replaces the one for all users even where it sets no limit.
    return tuple(
        Limit(quota.gpus_running, quota.virtual_cluster, quota.user)
        for quota in quotas
        if quota.gpus_running is not None or quota.user
    )


async def read_use(leader: Leader) -> Sequence[UseRow]:
    """Return what users used before this server led, as far as it still counts."""
    half_life_ms = _half_life_ms(await leader.settings.setting(FAIRNESS))
    if leader.usage is None or half_life_ms is None:
        return ()
    now_ms = leader.clock.now_ms()
    return await leader.usage.use(now_ms - HALF_LIVES * half_life_ms, now_ms)


def learn_use(leader: Leader, rows: Iterable[UseRow]) -> None:
    """Report to the scheduler what users used before this server led, faded to now."""
    half_life_ms = leader.sharing.half_life_ms
    if half_life_ms is None:
        return
    now_ms, steady_ms = leader.clock.now_ms(), leader.steady.now_ms()
    skus = leader.scheduler.sku_types()
    used: dict[tuple[str, str], float] = {}
    for row in (row for row in rows if row.user):
        owner = row.virtual_cluster, row.user
        used[owner] = used.get(owner, 0.0) + _faded(row, skus, half_life_ms, now_ms)
    for (name, user), device_ms in sorted(used.items()):
        leader.scheduler.learn_use(name, user, device_ms, steady_ms)


async def learn_run_times(leader: Leader) -> None:
    """Report to the scheduler how long jobs ran that finished before this server led."""
    if leader.usage is None:
        return
    for row in await leader.usage.run_times(RUN_TIMES):
        asks = (Ask(0, 0, row.gpus),)
        gang = Gang(
            "", asks, row.virtual_cluster, submitted_at_ms=row.submitted_at_ms, user=row.user,
            job=f"{row.user}~{row.name}",
        )  # fmt: skip
        leader.scheduler.learn_run_time(gang, row.ran_ms)


async def learn_accuracy(leader: Leader) -> None:
    """Read how good the estimates of starts were before this server led."""
    setting = await leader.settings.setting(ACCURACY)
    if setting is not None:
        leader.scheduler.guesses.load_starts(setting.body["starts"])


async def save_accuracy(leader: Leader) -> None:
    """Save how good the estimates of starts were, if jobs started since that had one."""
    guesses = leader.scheduler.guesses
    if guesses.version != leader.sharing.accuracy_saved:
        saved, body = guesses.version, {"starts": guesses.starts()}
        now_ms = leader.clock.now_ms()
        await leader.settings.set_setting(ACCURACY, body, by="platform", at_ms=now_ms, epoch=leader.epoch)
        leader.sharing.accuracy_saved = saved


def _faded(row: UseRow, skus: Mapping[str, Amount], half_life_ms: int, now_ms: int) -> float:
    """Return the device-milliseconds of a day, faded from its middle until now."""
    begins = datetime.fromisoformat(row.day).replace(tzinfo=UTC)
    begins_ms = int(begins.timestamp()) * 1000
    middle_ms = (begins_ms + min(begins_ms + _DAY_MS, now_ms)) // 2
    # A job without GPUs holds devices for its CPUs.
    cpus_each = min((sku.cpus for sku in skus.values() if sku.cpus), default=1)
    hours = max(row.gpu_hours, row.cpu_hours / cpus_each)
    fades = 2.0 ** (-max(0, now_ms - middle_ms) / half_life_ms)
    return float(hours * _HOUR_MS * fades)
