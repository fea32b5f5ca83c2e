"""The first start: somebody has to be able to log in. There is no default password."""

from __future__ import annotations

import secrets
from typing import Final

from openpai.api.passwords import hash_password
from openpai.ports.accounts import ADMIN_GROUP, DEFAULT_GROUP, AccountStore, Group, User
from openpai.ports.clock import Clock
from openpai.protocol.errors import Refused

ADMIN: Final = "admin"
PASSWORD_MIN: Final = 6


async def ensure_admin(users: AccountStore, clock: Clock, wished: str | None) -> str | None:
    """Create the user `admin` if nobody is there yet; return the password made up for it, None if none was.

    `wished` is used instead of a made-up password. It is ignored when the user exists: changing a password is
    another thing than starting a server.
    """
    if await users.user(ADMIN) is not None:
        return None
    if wished is not None and len(wished) < PASSWORD_MIN:
        raise Refused(
            "BadConfigurationError",
            f"PAI_ADMIN_PASSWORD has {len(wished)} characters",
            f"give at least {PASSWORD_MIN}, or leave it away to have one made up",
        )
    password = wished or secrets.token_urlsafe(12)
    await users.add_user(
        User(ADMIN, hash_password(password), clock.now_ms(), groups=(Group(DEFAULT_GROUP), Group(ADMIN_GROUP)))
    )
    return None if wished else password
