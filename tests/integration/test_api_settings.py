"""Settings over HTTP: those of the server as it was started, and those that are changed while it runs."""

from __future__ import annotations

from pathlib import Path

from openpai.api.routes.settings import _LIVE
from openpai.api.services import ServerSetting
from openpai.app.assembly import build
from openpai.app.settings import Settings

from .sharing_world import open_sharing


async def test_settings_changed_while_it_runs_name_the_time_and_the_user(tmp_path: Path) -> None:
    async with open_sharing(tmp_path) as world:
        before = {one["name"]: one for one in (await world.get("/settings"))["live"]}
        assert set(before) == {name for _, name, *_ in _LIVE}
        assert before["guarantees"]["changedTime"] is None
        await world.put("/cluster/config", {"promises": "vision: 1 node"})
        after = {one["name"]: one for one in (await world.get("/settings"))["live"]}
        assert (after["guarantees"]["changedTime"] > 0, after["guarantees"]["changedBy"]) == (True, "admin")
        await world.add_user("ann")
        assert (await world.ask("GET", "/settings", "ann")).status_code == 403


async def test_the_server_shows_with_what_it_was_started(tmp_path: Path) -> None:
    given = ServerSetting("port", "PAI_PORT", 1, 9186, "file", "/etc/pai.yaml", "Port to listen on.")
    async with build(Settings(data_dir=tmp_path, backend="simulated"), (given,)) as built:
        await built.open_api()
        assert built.api.state.context.services.server_settings == (given,)
