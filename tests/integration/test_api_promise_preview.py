"""What a promise would change, over HTTP, before it is set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .sharing_world import SHARED, Sharing, gpus, open_sharing


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Sharing]:
    async with open_sharing(tmp_path) as world:
        await world.put("/cluster/config", {"promises": SHARED})
        yield world


async def test_a_preview_says_what_a_promise_would_change_and_changes_nothing(shared: Sharing) -> None:
    for name in ("one", "two"):
        await shared.submit(name, "vision", 8)
        await shared.until(name, "RUNNING")
    before = await shared.get("/cluster/config")
    preview = await shared.ask("POST", "/virtual-clusters/vision/preview", json={"promise": "1 node"})
    assert preview.status_code == 200, preview.text
    found = preview.json()
    shares = {one["name"]: (one["before"]["gpu"], one["after"]["gpu"]) for one in found["shares"]}
    assert shares == {"default": (8, 16), "speech": (8, 8), "vision": (16, 8)}
    assert len(found["demoted"]) == 1
    assert await shared.get("/cluster/config") == before
    assert (await gpus(shared))["vision"] == 16
    changed = await shared.put("/virtual-clusters/vision", {"promise": "1 node"}, status=201)
    assert (changed["demoted"], changed["promises"]) == (found["demoted"], found["promises"])


async def test_a_preview_of_a_new_virtual_cluster_has_nothing_before(shared: Sharing) -> None:
    answer = await shared.ask("POST", "/virtual-clusters/audio/preview", json={"promise": "4 GPUs"})
    (audio,) = [one for one in answer.json()["shares"] if one["name"] == "audio"]
    assert (audio["before"], audio["after"]["gpu"], answer.json()["demoted"]) == (None, 4, [])


@pytest.mark.parametrize(
    ("vc", "promise", "code"),
    [
        ("vision", "100 nodes", "BadConfigurationError"),
        ("default", "1 node", "ReadOnlyVcError"),
        ("speech", "", "RemoveRunningVcError"),
        ("nowhere", "", "NoVirtualClusterError"),
    ],
)
async def test_a_preview_refuses_what_the_change_would(shared: Sharing, vc: str, promise: str, code: str) -> None:
    await shared.submit("runs", "speech", 8)
    answer = await shared.ask("POST", f"/virtual-clusters/{vc}/preview", json={"promise": promise})
    assert answer.json()["code"] == code
    method, more = ("PUT", {"json": {"promise": promise}}) if promise else ("DELETE", {})
    assert (await shared.ask(method, f"/virtual-clusters/{vc}", **more)).json()["code"] == code
