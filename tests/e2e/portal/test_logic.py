"""The tests of the portal's logic, which need Node and no browser."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.portal.browsing import AXE
from tests.e2e.server import ROOT


@pytest.mark.slow
def test_the_logic_of_the_portal_holds() -> None:
    if not AXE.exists():
        pytest.skip("the portal is not built here: make portal")
    done = subprocess.run(
        [sys.executable, ROOT / "portal/build.py", "--test"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
