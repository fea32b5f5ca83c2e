"""A platform with simulated nodes, its portal as built here, and a real browser that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Final

import pytest

from tests.e2e.portal.browsing import AXE, BUILT, ELSEWHERE, Profiles, Visitor
from tests.e2e.server import Server

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright, which drives the browser")


@pytest.fixture(scope="session")
def built() -> None:
    """Skip unless the portal was built here."""
    if not (BUILT / "index.html").exists() or not AXE.exists():
        pytest.skip("the portal is not built here: make portal")


OPTIONS: Final = (
    *("--backend", "simulated", "--ssh-port", "0"),
    *("--gpus-per-node", "8", "--share", "vision: 1 node, speech: 8 GPUs"),
)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory, built: None) -> Iterator[Server]:
    """Return a platform for all modules with SHARES_SERVER, whose jobs and users leave others alone."""
    found = Server.start(tmp_path_factory.mktemp("portal"), 0, *OPTIONS)
    yield found
    found.end()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, built: None) -> Iterator[Server]:
    """Return a platform of four nodes with eight GPUs each, the module's own unless it says that it shares one."""
    if getattr(request.module, "SHARES_SERVER", False):
        yield request.getfixturevalue("shared_server")
        return
    found = Server.start(tmp_path_factory.mktemp("portal"), 0, *OPTIONS)
    yield found
    found.end()


@pytest.fixture(scope="package")
def browser() -> Iterator[Profiles]:
    """Return Debian's Chromium, for all tests of this folder: its driver keeps an event loop until it ends.

    Without what draws windows it needs two thirds of the processor time, and pages of one profile share a process.
    """
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=path,
            args=[
                *("--no-sandbox", "--disable-dev-shm-usage", "--process-per-site"),
                f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
            ],
        )
        yield Profiles(found)
        found.close()


@pytest.fixture
def visitor(server: Server, browser: Profiles) -> Iterator[Visitor]:
    """Return a user at the portal, logged in as administrator; what the browser complains about fails the test."""
    found = Visitor(browser, server.url)
    found.log_in()
    yield found
    found.close()
    assert found.complaints == []
