"""Proving later to have known a secret (PKCE, S256): the challenge is shown first, the secret when it counts."""

from __future__ import annotations

import base64
from hashlib import sha256


def challenge_of(verifier: str) -> str:
    """Return what is shown of a secret before the secret itself."""
    return base64.urlsafe_b64encode(sha256(verifier.encode("utf-8", "replace")).digest()).rstrip(b"=").decode()
