"""PKCE (S256): proves that the client that redeems a code is the one that began the login."""

from __future__ import annotations

import base64
from hashlib import sha256


def challenge_of(verifier: str) -> str:
    """Return the challenge of a secret."""
    return base64.urlsafe_b64encode(sha256(verifier.encode("utf-8", "replace")).digest()).rstrip(b"=").decode()
