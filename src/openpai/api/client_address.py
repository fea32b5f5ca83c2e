"""The address a request came from, also when another server of this platform forwarded it."""

from __future__ import annotations

from typing import Any, Final

from starlette.types import Scope

from openpai.ports.identity import Sealer
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused

FORWARDED: Final = "x-pai-forwarded"
# Other values are sealed with the same key.
_ADDRESS: Final = "address of a caller"


def address_of(scope: Scope) -> str:
    """Return the address a request came from."""
    client = scope.get("client")
    return client[0] if client else "local"


def sealed_text(sealer: Sealer, values: dict[str, Any]) -> str:
    """Return values as text that only servers of this platform can create and read; never without values."""
    sealed = sealer.seal(values)
    if sealed is None:
        raise ValueError("nothing was sealed")
    return sealed.data.decode()


def sealed_address(sealer: Sealer, address: str) -> str:
    """Return an address in a form that only servers of this platform can create."""
    return sealed_text(sealer, {_ADDRESS: address})


def with_origin(scope: Scope, sealer: Sealer) -> Scope:
    """Return a forwarded request with the address of the original client, if a server of this platform sealed it."""
    sealed: Any = next((value for name, value in scope["headers"] if name == FORWARDED.encode()), None)
    if sealed is None:
        return scope
    try:
        address = sealer.open(Sealed(sealed)).get(_ADDRESS)
    except Refused:
        return scope
    return {**scope, "client": (address, 0)} if isinstance(address, str) else scope
