"""What of a user is kept here, and what an identity provider says at each login."""

from __future__ import annotations

from dataclasses import fields

import pytest

from openpai.access.accounts import User, check_local, own_fields
from openpai.protocol.errors import Refused


@pytest.mark.parametrize("source", ["oidc", "ldap"])
def test_of_a_user_of_a_provider_only_the_extension_is_kept_here_alone(source: str) -> None:
    local, other = User("ann", "hash", 0), User("bob", "", 0, source=source)
    assert own_fields(other) == {"extension"}
    assert own_fields(local) > own_fields(other)
    assert own_fields(local) <= {field.name for field in fields(User)}
    check_local(local)
    with pytest.raises(Refused, match=f"bob logs in through {source.upper()}"):
        check_local(other)
