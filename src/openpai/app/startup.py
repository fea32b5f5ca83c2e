"""Initial data of a starting server: the first administrator, the groups of virtual clusters, and the promises of
`--cluster FILE` or `--share TEXT`. `pai admin` uses the same code to restore the access of an administrator.

There is no default password.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User, check_local, is_user_name
from openpai.access.memberships import with_admin
from openpai.api.services import Services
from openpai.app.settings import Settings
from openpai.cli.text_file import read_text
from openpai.identity.passwords import PASSWORD_MAX, PASSWORD_MIN, hash_password
from openpai.orchestrator.accounts import all_groups
from openpai.orchestrator.node_sync import absent_nodes, seen_nodes
from openpai.orchestrator.vc_groups import ensure_vc_groups
from openpai.ports.accounts import AccountStore
from openpai.ports.backend import Backend
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import CLUSTER, SettingsStore
from openpai.protocol.admission import queues_in, queues_of_nobody
from openpai.protocol.errors import BadConfiguration, InvalidParameters, Unavailable
from openpai.protocol.wording import listed
from openpai.scheduler.config.arrangement import check, guarantees_in

ADMIN: Final = "admin"
BY: Final = "pai up"
log: Final = structlog.get_logger(__name__)


async def ensure_admin(users: AccountStore, clock: Clock, requested: str | None) -> str | None:
    """Create the user `admin` if there are no users; return the password generated for it, None if none was.

    `requested` replaces the generated password. It is ignored when there are users: a start changes no password,
    and a removed `admin` stays removed.
    """
    if await users.users():
        return None
    if requested is not None and len(requested) < PASSWORD_MIN:
        raise BadConfiguration(
            f"PAI_ADMIN_PASSWORD has {len(requested)} characters",
            f"give at least {PASSWORD_MIN}, or unset it to get a generated one",
        )
    password = requested or made_up_password()
    await users.add_user(_admin(ADMIN, password, clock))
    return None if requested else password


async def restore_admin(users: AccountStore, clock: Clock, name: str, password: str) -> bool:
    """Make a user an administrator with this password; return whether the user is new.

    Raises Refused for a user whose password is kept elsewhere. Their logins end; tokens of applications stay.
    """
    _check(name, password)
    found = await users.user(name)
    if found is None:
        await users.add_user(_admin(name, password, clock))
        return True
    check_local(found)
    groups = await all_groups(users)
    await users.set_password(name, hash_password(password))
    await users.change_user(
        name, lambda user: replace(user, is_viewer=False, groups=with_admin(groups, user.groups, is_admin=True))
    )
    return False


def _check(name: str, password: str) -> None:
    if not is_user_name(name):
        raise InvalidParameters(f"{name!r} is not a user name", "use letters, digits, dots, dashes and _")
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        message = f"the password has {len(password)} characters"
        raise InvalidParameters(message, f"give at least {PASSWORD_MIN}, or let --make-up choose one")


async def ensure_groups(services: Services) -> None:
    """Make sure each virtual cluster has a group that grants it, including those from the command line."""
    try:
        views = await services.platform.virtual_clusters()
    except Unavailable:
        # The leader did this when it took over.
        return
    await ensure_vc_groups(services.users, (view.name for view in views))


def made_up_password() -> str:
    """Return a random password."""
    return secrets.token_urlsafe(12)


def _admin(name: str, password: str, clock: Clock) -> User:
    groups = (Group(DEFAULT_GROUP), Group(ADMIN_GROUP))
    return User(name, hash_password(password), clock.now_ms(), groups=groups)


def promised_at_start(settings: Settings) -> dict[str, Any] | None:
    """Return the cluster setting of the command line, None without one. Raises Refused for its faults, and for queues
    of virtual clusters that it does not name.
    """
    if settings.cluster is not None:
        text = read_text(settings.cluster, "a file in HiveD's format", code="BadConfigurationError")
        body: dict[str, Any] = {"hived": text}
    elif settings.share is not None:
        body = {"promises": settings.share}
    else:
        return None
    wanted = guarantees_in(body)
    check(wanted, ())
    if faults := queues_of_nobody(queues_in(settings.kueue_queues), wanted.virtual_clusters):
        option = "--cluster" if settings.cluster is not None else "--share"
        raise BadConfiguration("; ".join(faults), f"name one of {option}: {listed(sorted(wanted.virtual_clusters))}")
    return body


async def promise(body: Mapping[str, Any], store: SettingsStore, backend: Backend, clock: Clock) -> None:
    """Store the cluster setting unless it is unchanged. Raises Refused when the nodes cannot satisfy it."""
    known = await store.setting(CLUSTER)
    if known is not None and known.body == body:
        return
    there = {node.name: node for node in await backend.nodes()}
    check(guarantees_in(body), [*seen_nodes(there.values()), *absent_nodes(await store.node_notes(), there)])
    if known is not None and known.changed_by != BY:
        message = "the promises of the command line replace those that were set while the platform ran"
        log.warning(message, made_by=known.changed_by, version=known.version)
    await store.set_setting(CLUSTER, body, by=BY, at_ms=clock.now_ms())
