"""The SSH keys of a profile over REST, and the address of a task for SSH clients."""

from __future__ import annotations

from dataclasses import replace

import asyncssh
import pytest

from openpai.api.app import create_api
from openpai.api.services import SshGateway
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.job_keys import keys_of

from .api_world import World
from .job_acts import refused

KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode().strip()


async def test_a_key_is_added_listed_and_removed(world: World) -> None:
    path = "/users/ann/ssh-keys"
    added = await world.ask("POST", path, json={"key": KEY, "title": "laptop"})
    assert (added.status_code, added.json()["title"]) == (201, "laptop")
    assert await refused(world, "POST", path, "ann", json={"key": KEY}) == (409, "ConflictSshKeyError")
    [found] = (await world.get(path))["sshKeys"]
    assert found == added.json()
    assert found["fingerprint"].startswith("SHA256:")
    # The portal of OpenPAI reads and writes the same list.
    [entry] = (await world.get("/users/me"))["extension"]["sshKeys"]
    assert (entry["title"], entry["value"]) == ("laptop", KEY)
    assert (await world.get(path, "root"))["sshKeys"] == [found]
    assert await refused(world, "GET", path, "bob") == (403, "ForbiddenUserError")
    assert await refused(world, "DELETE", f"{path}/{found['id']}", "bob") == (403, "ForbiddenUserError")
    assert (await world.ask("DELETE", f"{path}/{found['id']}")).status_code == 200
    assert await refused(world, "DELETE", f"{path}/{found['id']}", "ann") == (404, "NoSshKeyError")


@pytest.mark.parametrize(
    "key", ["", "x", f"no-pty {KEY}", f"{KEY}\n{KEY}", "\x00", "ssh-ed25519 AAAA", "a" * 60_000], ids=range(7)
)
async def test_what_is_no_key_is_refused(world: World, key: str) -> None:
    body = {"key": key}
    assert await refused(world, "POST", "/users/ann/ssh-keys", "ann", json=body) == (400, "InvalidParametersError")


async def test_an_application_cannot_add_a_key(world: World) -> None:
    made = await world.ask("POST", "/tokens/application", json={"scope": "all"})
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    answer = await world.http.post("/api/v2/users/ann/ssh-keys", headers=headers, json={"key": KEY})
    assert answer.status_code == 403


async def test_a_server_with_a_gateway_says_how_ssh_clients_reach_a_task(world: World) -> None:
    id_ = await world.submit("train")
    await world.grant()
    assert await refused(world, "GET", "/jobs/ann~train/ssh", "ann") == (404, "NoJobSshInfoError")
    services = world.api.state.context.services
    world.http._transport.app = create_api(replace(services, ssh=lambda: SshGateway(2222, "ssh-ed25519 AAAA")))  # type: ignore[attr-defined]
    assert await refused(world, "GET", "/jobs/ann~train/ssh", "ann") == (404, "NoJobSshInfoError")
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    for user, name in (("ann", "ann+train+worker+0"), ("root", "root+ann~train+worker+0")):
        [found] = (await world.get("/jobs/ann~train/ssh", user))["gateway"]
        assert (found["user"], found["port"], found["hostKey"]) == (name, 2222, "ssh-ed25519 AAAA")
        assert found["command"] == f"ssh -p 2222 {name}@{found['host']}"
    assert await refused(world, "GET", "/jobs/ann~train/ssh", "bob") == (403, "ForbiddenUserError")


async def test_a_job_lets_its_owner_in_however_its_file_spells_the_plugin(world: World) -> None:
    await world.users.change_user("ann", lambda user: replace(user, extension={"sshKeys": ["ssh-ed25519 AAAA laptop"]}))
    plugins = 'extras: {com.microsoft.pai.runtimeplugin: [{plugin: "\\x73sh", parameters: {jobssh: true}}]}'
    record = await world.store.load(await world.submit(more=plugins))
    assert record is not None
    assert keys_of(world.commands._secrets.open(record.sealed)).owner == ("ssh-ed25519 AAAA laptop",)
