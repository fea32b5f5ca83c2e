"""`pai import openpai`: from an OpenPAI's REST server, and from a directory of its files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openpai.client import Client
from tests.integration.fake_openpai import TOKEN, answers, group, open_openpai, user
from tests.integration.sharing_world import PASSWORD, open_sharing
from tests.integration.terminal import Bridge, Terminal, on_a_loop
from tests.quiet_logs import quiet_logs

HIVED = """physicalCluster:
  skuTypes: {A: {gpu: 1, cpu: 4, memory: 1024Mi}}
  cellTypes:
    A-NODE: {childCellType: A, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
  - {cellType: A-NODE, cellAddress: node-01}
virtualClusters:
  default: {virtualCells: [{cellType: A-NODE.A, cellNumber: 4}]}
  vision: {virtualCells: [{cellType: A-NODE.A, cellNumber: 4}]}
"""


@pytest.fixture
def pai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    # The platform runs in this process, and standard output belongs to the command.
    with quiet_logs(), on_a_loop() as (loop, run):
        opened = open_sharing(tmp_path)
        world = run(opened.__aenter__())
        terminal = Terminal(world, loop, Bridge(world.server.api, run), monkeypatch)
        with Client("http://pai", transport=terminal.bridge) as client:
            terminal.tokens["root"] = client.login("admin", PASSWORD).token
        yield terminal
        run(opened.__aexit__(None, None, None))


@pytest.fixture
def url() -> Iterator[str]:
    with open_openpai(answers()) as found:
        yield found


def steps(pai: Terminal, *arguments: str, code: int = 0) -> dict[tuple[str, str], tuple[str, str]]:
    outcome = pai("import", "openpai", *arguments, "--token-stdin", "--json", stdin=f"{TOKEN}\n")
    assert outcome.code == code, outcome.err
    return {(one["kind"], one["name"]): (one["action"], one["detail"]) for one in outcome.json()["steps"]}


def actions(found: dict[tuple[str, str], tuple[str, str]], kind: str) -> dict[str, str]:
    return {name: action for (of, name), (action, _) in found.items() if of == kind}


def test_without_apply_an_import_shows_what_it_would_do_and_changes_nothing(pai, url):
    found = steps(pai, url)
    assert actions(found, "user") == {".ghost": "skip", "ann": "add", "bob": "add", "boss": "add"}
    assert actions(found, "storage") == {
        "nfs-data": "add", "homes": "add", "files": "add", "blobs": "add", "odd": "skip", "hidden": "skip",
    }  # fmt: skip
    assert "personal" in found["storage", "homes"][1]
    assert "groups that do not exist: gone" in found["user", "bob"][1]
    assert "virtual cluster vision, storage odd, storage hidden" in found["group", "vision"][1]
    assert 'pai vc set vision "4 GPUs"' in found["virtual cluster", "vision"][1]
    assert "private SSH key of 1 users" in found["secret", "jobSSH"][1]
    text = pai.ok("import", "openpai", url, "--token-stdin", stdin=f"{TOKEN}\n").out
    assert "--apply" in text
    assert "smb-secret" not in text
    assert "a2V5" not in text
    assert pai.client().storages() == ()
    assert "boss" not in {one.name for one in pai.client().users()}


def test_an_import_adds_what_is_missing_and_a_second_one_changes_nothing(pai, url, tmp_path):
    secret = tmp_path / "passwords.csv"
    pai.client().promise("vision", "1 GPUs")
    found = steps(pai, url, "--apply", "--passwords", str(secret))
    assert "skip" not in {action for (kind, name), (action, _) in found.items() if name in ("nfs-data", "homes", "ann")}
    client = pai.client()
    assert client.storage("nfs-data").data["server"] == "10.0.0.5"
    homes = client.storage("homes")
    assert (homes.is_shared, homes.has_credentials) == (False, True)
    assert "smb-secret" not in json.dumps(homes.document)
    assert client.storage("files").data["server"] == "acct.file.core.windows.net"
    assert client.storage("blobs").is_read_only
    assert client.group("vision").storages == ("homes", "nfs-data")
    assert client.group("vision").virtual_clusters == ("vision",)
    assert client.user_details("boss").is_admin
    assert client.user_details("ann").extension["sshKeys"][0]["title"] == "laptop"
    assert secret.stat().st_mode & 0o777 == 0o600
    lines = dict(line.split(",") for line in secret.read_text().splitlines()[1:])
    assert lines.keys() == {name for (kind, name), (action, _) in found.items() if (kind, action) == ("user", "add")}
    with Client("http://pai", transport=pai.bridge) as other:
        assert other.login("boss", lines["boss"]).token
    again = steps(pai, url, "--apply", "--passwords", str(tmp_path / "none.csv"))
    assert {action for action, _ in again.values()} == {"keep", "skip"}
    assert (tmp_path / "none.csv").read_text() == "username,password\n"


def test_an_existing_user_keeps_their_password_and_gets_only_what_they_lack(pai, url):
    pai.client().promise("vision", "1 GPUs")
    pai.client().add_user("boss", "correct horse", email="own@example.org")
    found = steps(pai, url, "--apply")
    assert found["user", "boss"][0] == "change"
    details = pai.client().user_details("boss")
    assert (details.is_admin, details.email) == (True, "own@example.org")
    with Client("http://pai", transport=pai.bridge) as other:
        assert other.login("boss", "correct horse").token


def test_one_thing_that_is_refused_does_not_keep_others_from_being_imported(pai):
    found = answers()
    found["/users"].append(user("me"))
    with open_openpai(found) as url:
        result = steps(pai, url, "--apply", code=2)
    assert result["user", "me"][0] == "skip"
    assert "refused" in result["user", "me"][1]
    assert pai.client().user_details("boss").is_admin


@pytest.mark.parametrize("prefix", ["/rest-server/api/v2", "/api/v2"])
def test_the_address_of_the_portal_or_of_the_rest_server_will_do(pai, prefix):
    with open_openpai(answers(), prefix) as url:
        assert steps(pai, url)["user", "ann"]


def test_a_wrong_token_address_or_directory_is_refused_in_words(pai, url, tmp_path):
    wrong = pai("import", "openpai", url, "--token-stdin", stdin="other\n")
    assert (wrong.code, "refuses the token" in wrong.err) == (4, True)
    nothing = pai("import", "openpai", f"{url}/elsewhere", "--token-stdin", stdin=f"{TOKEN}\n")
    assert (nothing.code, "there is no OpenPAI at" in nothing.err) == (2, True)
    assert "neither a URL nor a directory" in pai("import", "openpai", str(tmp_path / "none")).err
    (tmp_path / "there").write_text("")
    assert "exists" in pai("import", "openpai", url, "--passwords", str(tmp_path / "there")).err


def secret(namespace: str, **values: Any) -> dict[str, Any]:
    encoded = {
        key: base64.b64encode((value if isinstance(value, str) else json.dumps(value)).encode()).decode()
        for key, value in values.items()
    }
    return {"kind": "Secret", "metadata": {"name": "x", "namespace": namespace}, "data": encoded}


def volume(name: str, **source: Any) -> list[dict[str, Any]]:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "labels": {"share": "false"}},
        "spec": {"volumeName": f"{name}-pv"},
    }
    return [claim, {"kind": "PersistentVolume", "metadata": {"name": f"{name}-pv"}, "spec": source}]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A directory as an administrator exports it: the files of paictl, and what kubectl prints."""
    root = tmp_path / "exported"
    root.mkdir()
    indented = "\n".join(f"    {line}" for line in HIVED.splitlines())
    services = f"cluster:\n  common:\n    cluster-id: pai\nhivedscheduler:\n  config: |\n{indented}\n"
    (root / "services-configuration.yaml").write_text(services)
    machines = [{"hostname": "node-01", "pai-worker": "true"}, {"hostname": "old", "pai-worker": "true"}]
    (root / "layout.yaml").write_text(json.dumps({"machine-list": machines, "machine-sku": {}}))
    people = [
        secret("pai-user-v2", username="ann", password="0123abcd", grouplist=["default", "vision"], email="a@b.org"),
        secret("pai-group", groupname="vision", description="", extension=group("v", vcs=("vision",))["extension"]),
    ]
    (root / "secrets.json").write_text(json.dumps({"kind": "List", "items": people}))
    blob = {"driver": "azure/blobfuse", "options": {"container": "c"}, "secretRef": {"name": "unknown"}}
    volumes = [*volume("data", nfs={"server": "10.0.0.5", "path": "/x"}), *volume("blob", flexVolume=blob)]
    (root / "volumes.json").write_text(json.dumps({"kind": "List", "items": volumes}))
    (root / "notes.yaml").write_text("just: notes\n")
    (root / "deep.yaml").write_text("[" * 100_000)
    (root / "broken.json").write_text("{")
    return root


def test_a_directory_of_exported_files_is_imported(pai, exported):
    found = steps(pai, str(exported), "--apply")
    assert found["virtual clusters", "default, vision"][0] == "change"
    assert found["node", "old"][0] == "skip"
    assert found["storage", "blob"][0] == "skip"
    assert "secret of its volume" in found["storage", "blob"][1]
    assert {name for (kind, name) in found if kind == "file"} == {"notes.yaml", "deep.yaml", "broken.json"}
    client = pai.client()
    assert {vc.name for vc in client.virtual_clusters()} == {"default", "vision"}
    assert not client.storage("data").is_shared
    assert client.group("vision").virtual_clusters == ("vision",)
    assert "vision" in client.user_details("ann").groups
    assert {action for action, _ in steps(pai, str(exported), "--apply").values()} == {"keep", "skip"}


def test_the_cells_come_from_a_file_where_rest_does_not_show_them(pai, url, exported):
    found = steps(pai, url, "--config", str(exported / "services-configuration.yaml"))
    assert found["virtual clusters", "default, vision"][0] == "change"
    assert "without what is not here: storage odd" in found["group", "vision"][1]
    wrong = pai("import", "openpai", url, "--config", str(exported / "layout.yaml"), "--token-stdin", stdin=TOKEN)
    assert (wrong.code, "has no configuration of HiveD" in wrong.err) == (2, True)


def test_nodes_of_the_cells_that_are_not_here_are_named(pai, exported):
    other = HIVED.replace("{cellType: A-NODE, cellAddress: node-01}", "{cellType: A-NODE, cellAddress: elsewhere}")
    (exported / "services-configuration.yaml").write_text(other)
    found = steps(pai, str(exported))
    assert "1 of its 1 nodes are not here: elsewhere" in found["virtual clusters", "default, vision"][1]
