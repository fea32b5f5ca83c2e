"""An OpenPAI's REST server for tests: answers in the shapes that its version 1.8 gives to administrators."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "admin.of.openpai"
RESOURCES = {"cpu": 32, "memory": 204800, "gpu": 8, "vCores": 32, "GPUs": 8}


def vc(gpus: int = 8) -> dict[str, Any]:
    blocks = {key: {**RESOURCES, "gpu": gpus} for key in ("resourcesUsed", "resourcesGuaranteed", "resourcesTotal")}
    return {"capacity": 50, "maxCapacity": 50, "usedCapacity": 0, "dedicated": False, **blocks}


def group(
    name: str, *, admin: bool = False, vcs: tuple[str, ...] = (), storages: tuple[str, ...] = ()
) -> dict[str, Any]:
    acls = {"admin": admin, "virtualClusters": list(vcs), "storageConfigs": list(storages)}
    return {"groupname": name, "description": f"group {name}", "externalName": "", "extension": {"acls": acls}}


def user(name: str, *groups: str, admin: bool = False, **extension: Any) -> dict[str, Any]:
    return {
        "username": name,
        "email": f"{name}@example.org".lstrip("."),
        "grouplist": ["default", *groups],
        "extension": extension,
        "admin": admin,
        "virtualCluster": ["default"],
        "storageConfig": [],
    }


def storage(name: str, kind: str, *, share: bool = True, read_only: bool = False, **data: Any) -> dict[str, Any]:
    listed = {"name": name, "share": share, "volumeName": f"{name}-pv", "default": False}
    return {**listed, "type": kind, "data": data, "readOnly": read_only, "secretName": f"{name}-secret"}


def answers() -> dict[str, Any]:
    """Return what each path answers."""
    storages = [
        storage("nfs-data", "nfs", server="10.0.0.5", path="/data"),
        storage("homes", "samba", share=False, address="//10.0.0.6/homes", username="smb", password="smb-secret"),
        storage("files", "azureFile", shareName="files", accountName="acct", accountKey="a2V5"),
        storage("blobs", "azureBlob", read_only=True, containerName="c", accountName="acct", accountKey="a2V5"),
        storage("odd", "other"),
    ]
    groups = [
        group("default", vcs=("default",)),
        group("admingroup", admin=True, vcs=("default", "vision"), storages=("nfs-data",)),
        group("vision", vcs=("vision",), storages=("homes", "nfs-data", "odd", "hidden")),
    ]
    users = [
        user("boss", "admingroup", admin=True),
        user("ann", "vision", sshKeys=[{"title": "laptop", "value": "ssh-ed25519 AAAA", "time": 1}]),
        user("bob", "gone", jobSSH={"key": "-----BEGIN RSA PRIVATE KEY-----", "pubKey": "ssh-rsa AAAA"}),
        user(".ghost"),
    ]
    return {
        "/info": {"name": "PAI RESTful API", "version": "v1.8.1", "launcherType": "k8s", "authnMethod": "basic"},
        "/users": users,
        "/groups": groups,
        "/storages": {
            "storages": [{k: one[k] for k in ("name", "share", "volumeName", "default")} for one in storages]
        },
        "/virtual-clusters": {"default": vc(), "vision": vc(4)},
        **{f"/storages/{one['name']}": one for one in storages},
    }


@contextmanager
def open_openpai(found: dict[str, Any], prefix: str = "/rest-server/api/v2") -> Iterator[str]:
    """Serve an OpenPAI; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            document = found.get(path.removeprefix(prefix)) if path.startswith(prefix) else None
            status = 200
            if document is None:
                status, document = 404, {"code": "NoApiError", "message": f"API {path} is not found."}
            elif not path.endswith("/info") and self.headers["Authorization"] != f"Bearer {TOKEN}":
                status, document = 401, {"code": "UnauthorizedUserError", "message": "Your token is invalid."}
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
