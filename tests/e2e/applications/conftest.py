"""The browser of the portal's tests."""

from __future__ import annotations

from tests.e2e.portal.conftest import browser

__all__ = ["browser"]
