"""Which storages a job gets: named, granted, mountable, by default, and as OpenPAI's old plugin asks for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openpai.backends.host.mounts import claim_refusal
from openpai.orchestrator.job_storages import known_storages, mounts, with_storages
from openpai.ports.platform import Submitter
from openpai.ports.storages import Storage
from openpai.protocol.errors import InvalidProtocol, Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.reading import read_job

ANN = Submitter("ann", frozenset(), ("home", "data", "nas", "share", "bucket", "models"), ("home",))


class StorageList:
    """The storages there are."""

    async def storages(self) -> tuple[Storage, ...]:
        return (
            Storage("home", "local", {"path": "/srv/home"}, is_shared=False),
            Storage("data", "local", {"path": "/srv/data"}, is_read_only=True),
            Storage("nas", "nfs", {"server": "nas", "path": "/x", "mountOptions": "vers=4.1"}),
            Storage("share", "smb", {"server": "fs", "share": "s", "path": "a/b", "port": 445, "username": "u"}),
            Storage("bucket", "s3", {"bucket": "b"}),
            Storage("models", "s3", {"bucket": "b", "claim": "models"}, is_shared=False),
            Storage("ceph", "claim", {"claim": "ceph"}),
            Storage("nas-claim", "nfs", {"server": "nas", "path": "/x", "claim": "nas"}),
            Storage("nas-home-claim", "nfs", {"server": "nas", "path": "/x", "claim": "nas"}, is_shared=False),
            Storage("secret", "local", {"path": "/srv/secret"}),
            Storage("nas-home", "nfs", {"server": "nas", "path": "/x"}, is_shared=False),
            Storage("nas-there", "nfs", {"server": "nas", "path": "/x", "mountedAt": "/nas"}, is_shared=False),
        )


class Vault:
    """Opens everything to the same password."""

    def open(self, sealed: object) -> dict[str, str]:
        return {"password": "a,b"}


def job(extras: dict[str, Any]) -> JobSpec:
    role = {"dockerImage": "i", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0}, "commands": ["true"]}
    image = {"type": "dockerimage", "name": "i", "uri": "u"}
    text = {"protocolVersion": 2, "name": "j", "type": "job", "prerequisites": [image], "taskRoles": {"r": role}}
    return read_job(json.dumps({**text, "extras": extras}).encode()).spec


async def asked(extras: dict[str, Any], by: Submitter = ANN) -> list[tuple[str, str]]:
    spec = await with_storages(job(extras), by, StorageList())  # type: ignore[arg-type]
    return [(each["name"], each["mountPath"]) for each in spec.extras.get("storages", ())]


async def test_names_defaults_and_nothing() -> None:
    assert await asked({}) == []
    assert await asked({"storages": []}) == [("home", "/mnt/home")]
    assert await asked({"storages": []}, Submitter("bob", frozenset(), ())) == []
    assert await asked({"storages": []}, Submitter("bob", frozenset(), ("gone", "home"), ("gone", "home"))) == [
        ("home", "/mnt/home")
    ]
    listed = [{"name": "data"}, {"name": "home", "mountPath": "/data/me/"}, {"mountPath": "/x"}]
    assert await asked({"storages": listed}) == [("data", "/mnt/data"), ("home", "/data/me")]


async def test_the_old_plugin_asks_too() -> None:
    def old(**parameters: Any) -> dict[str, Any]:
        return {"com.microsoft.pai.runtimeplugin": [{"plugin": "teamwise_storage", "parameters": parameters}]}

    assert await asked(old(storageConfigNames=["data"])) == [("data", "/mnt/data")]
    assert await asked(old()) == [("home", "/mnt/home")]


@pytest.mark.parametrize("name", ["secret", "missing"])
async def test_what_is_not_granted_is_as_good_as_not_there(name: str) -> None:
    with pytest.raises(Refused) as message:
        await asked({"storages": [{"name": name}]})
    assert message.value.code == "NoStorageError"
    assert await asked({"storages": [{"name": "secret"}]}, Submitter("root")) == [("secret", "/mnt/secret")]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([{"name": "bucket"}], "pai storage download bucket"),
        ([{"name": "data", "mountPath": "/"}], "nothing can be mounted at '/'"),
        ([{"name": "data", "mountPath": "relative"}], "nothing can be mounted at 'relative'"),
        ([{"name": "data", "mountPath": "/mnt/../etc"}], "nothing can be mounted at '/etc'"),
        ([{"name": "data", "mountPath": "//proc"}], "nothing can be mounted at '/proc'"),
        ([{"name": "data", "mountPath": "/usr/local/pai/x"}], "nothing can be mounted"),
        ([{"name": "data", "mountPath": "/x"}, {"name": "nas", "mountPath": "//x"}], "another storage"),
        ([{"name": "data", "mountPath": "/x"}, {"name": "nas", "mountPath": "/x"}], "another storage"),
        ([{"name": "data"}, {"name": "data", "mountPath": "/x"}], "asked for twice"),
    ],
)
async def test_a_storage_that_cannot_be_mounted_is_a_fault(listed: list[dict[str, str]], message: str) -> None:
    with pytest.raises(InvalidProtocol) as error:
        await asked({"storages": listed})
    assert message in error.value.message
    assert error.value.faults[0].path.startswith("extras.storages.")


async def mounted(*names: str) -> Any:
    known = {storage.name: storage for storage in await StorageList().storages()}
    return mounts(job({"storages": [{"name": name} for name in names]}), "ann", known, Vault())


async def test_mounts_say_where_and_how() -> None:
    home, data, nas, share, there = await mounted("home", "data", "nas", "share", "nas-there")
    assert (home.source, home.folder, home.mount_path, home.is_read_only) == ("/srv/home", "ann", "/mnt/home", False)
    assert (data.source, data.folder, data.is_read_only) == ("/srv/data", "", True)
    assert (nas.filesystem, nas.source, nas.options) == ("nfs", ":/x", "addr=nas,rw,vers=4.1")
    assert (share.filesystem, share.source) == ("cifs", "//fs/s/a/b")
    assert share.options == "addr=fs,rw,port=445,username=u,password=a,,b"
    assert "a,,b" not in repr(share)
    assert (there.filesystem, there.source, there.folder) == ("", "/nas", "ann")


async def test_a_claim_is_what_pods_mount_and_may_be_the_only_way() -> None:
    models, ceph, nas, home = await mounted("models", "ceph", "nas-claim", "nas-home-claim")
    assert [mount.claim for mount in (models, ceph, nas, home)] == ["models", "ceph", "nas", "nas"]
    assert (models.source, models.folder, ceph.source, ceph.folder) == ("", "ann", "", "")
    assert (nas.filesystem, nas.source) == ("nfs", ":/x")
    # Mounted from its address, everybody's folders would be seen.
    assert (home.filesystem, home.source, home.folder) == ("", "", "ann")
    for only in (models, ceph, home):
        refused = claim_refusal([nas, only])
        assert refused is not None
        assert f"storage {only.name} is the volume claim {only.claim}, which only pods" in refused.message
    assert claim_refusal([nas]) is None
    assert await asked({"storages": [{"name": "models"}]}) == [("models", "/mnt/models")]


async def test_a_storage_that_changed_since_the_submission_is_a_fault() -> None:
    with pytest.raises(Refused, match="was removed"):
        await mounted("gone")
    with pytest.raises(Refused, match="mountedAt"):
        await mounted("nas-home")


async def test_jobs_without_storages_cost_no_query() -> None:
    class Never:
        async def storages(self) -> tuple[Storage, ...]:
            raise AssertionError

    class Record:
        spec = job({})

    assert await known_storages(Never(), [Record()]) == {}  # type: ignore[arg-type, list-item]
