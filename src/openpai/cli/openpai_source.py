"""What an OpenPAI has: read from its REST API, or from a directory of files that an administrator exported.

A directory may hold services-configuration.yaml, layout.yaml, HiveD's configuration, answers of the REST API saved as
JSON, and what `kubectl get -o json` prints of the secrets and volumes that OpenPAI keeps. Files are recognized by what
is in them, not by their names.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import yaml

from openpai.cli.text_file import read_text
from openpai.protocol.errors import Refused, Unavailable

Document = dict[str, Any]
FILES_MAX: Final = 2_000
PATIENCE_S: Final = 60.0
BUSY_TRIES: Final = 30
BUSY_PAUSE_S: Final = 10.0
ANSWER_MAX: Final = 256 * 2**20
_PREFIXES: Final = ("/rest-server/api/v2", "/api/v2")


@dataclass
class Source:
    """What was found, in the shapes of OpenPAI's REST API, and what could not be read."""

    users: dict[str, Document] = field(default_factory=dict)
    groups: dict[str, Document] = field(default_factory=dict)
    storages: dict[str, Document] = field(default_factory=dict)
    virtual_clusters: dict[str, Document] = field(default_factory=dict)
    hived: str = ""
    """The configuration in HiveD's format; empty where it is not known."""
    machines: tuple[str, ...] = ()
    unread: list[tuple[str, str, str]] = field(default_factory=list)
    """Kind, name and reason of each thing that could not be read."""


def read_source(place: str, token: str) -> Source:
    """Return what is at a URL, with a token of an administrator, or in a directory."""
    if place.startswith(("http://", "https://")):
        return read_rest(place, token)
    directory = Path(place).expanduser()
    if not directory.is_dir():
        message = f"{place!r} is neither a URL nor a directory"
        raise Refused("InvalidParametersError", message, "give https://... of an OpenPAI, or a directory of its files")
    return read_directory(directory)


class OpenPai:
    """The REST API of an OpenPAI, as an administrator. Use it as a context."""

    def __init__(self, url: str, token: str, sleep: Callable[[float], None] = time.sleep) -> None:
        import httpx

        # Redirects are not followed: the token would go along.
        self._http = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)
        self._sleep = sleep
        self._base = self._find(url.rstrip("/"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _find(self, url: str) -> str:
        for prefix in _PREFIXES:
            answer = self._sent(f"{url}{prefix}/info")
            if answer.status_code == 200 and _is_openpai(answer):
                return f"{url}{prefix}"
        message = (
            f"there is no OpenPAI at {url}: neither {_PREFIXES[0]}/info nor {_PREFIXES[1]}/info answers as it does"
        )
        raise Refused("InvalidParametersError", message, "give the address of its web portal: https://pai.example.org")

    def get(self, path: str) -> Any:
        """Return the document at a path of the API."""
        url = f"{self._base}{path}"
        answer = self._sent(url)
        if answer.status_code in (401, 403):
            message = f"{url} refuses the token (HTTP {answer.status_code})"
            raise Refused("UnauthorizedUserError", message, "give the token of an administrator of the OpenPAI")
        if answer.status_code != 200:
            message = f"{url} answers HTTP {answer.status_code}"
            raise Refused("InvalidParametersError", message, "see the log of its server")
        try:
            return answer.json()
        except ValueError as error:
            message = f"{url} does not answer with JSON"
            raise Refused("InvalidParametersError", message, "give the address of OpenPAI") from error

    def _sent(self, url: str) -> Any:
        import httpx

        for _ in range(BUSY_TRIES):
            try:
                answer = self._http.get(url)
            except httpx.HTTPError as error:
                message = f"{url} does not answer: {error or type(error).__name__}"
                raise Unavailable(message, "check address and network") from error
            if answer.status_code != 429:
                break
            self._sleep(BUSY_PAUSE_S)  # it limits requests per minute
        if len(answer.content) > ANSWER_MAX:
            raise Refused("InvalidParametersError", f"{url} answers with more than {ANSWER_MAX >> 20} MiB", "export it")
        return answer


def read_rest(url: str, token: str) -> Source:
    """Return what the REST API of an OpenPAI says to an administrator."""
    found = Source()
    with OpenPai(url, token) as old:
        for kind in ("user", "group"):
            for one in listing(old.get(f"/{kind}s")):
                if not _take_one(found, one):
                    found.unread.append((kind, str(one)[:40], "it is not what OpenPAI answers"))
        found.virtual_clusters = mapping(old.get("/virtual-clusters"))
        stored = [mapping(one) for one in listing(mapping(old.get("/storages")).get("storages"))]
        names = {str(one["name"]): one for one in stored if one.get("name")}
        for name, listed in names.items():
            try:
                found.storages[name] = {**listed, **mapping(old.get(f"/storages/{quote(name, safe='')}"))}
            except Refused as error:
                found.unread.append(("storage", name, error.message))
    granted = {name for group in found.groups.values() for name in words(acls_of(group).get("storageConfigs"))}
    for name in sorted(granted - names.keys()):
        found.unread.append(("storage", name, "the token's user may not see it; grant it to their group, or export it"))
    return found


def _is_openpai(answer: Any) -> bool:
    try:
        return "launcherType" in answer.json()
    except (ValueError, TypeError):
        return False


def acls_of(group: Mapping[str, Any]) -> Document:
    """Return what a group grants."""
    return mapping(mapping(group.get("extension")).get("acls"))


def mapping(value: object) -> Document:
    """Return a value if it is a mapping, else an empty one: answers of another server may be anything."""
    return dict(value) if isinstance(value, Mapping) else {}


def listing(value: object) -> list[Any]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def words(value: object) -> list[str]:
    """Return the texts in a list."""
    return [one for one in listing(value) if isinstance(one, str)]


def read_directory(directory: Path) -> Source:
    """Return what is in the files of a directory."""
    found, volumes = Source(), _Volumes()
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml", ".json"))
    except OSError as error:
        message = f"{directory} cannot be read: {error.strerror}"
        raise Refused("InvalidParametersError", message, "give a directory that you may read") from error
    if len(paths) > FILES_MAX:
        message = f"{directory} has {len(paths)} files"
        raise Refused(
            "InvalidParametersError", message, f"give a directory with at most {FILES_MAX} of OpenPAI's files"
        )
    for path in paths:
        _read(found, volumes, path, path.name)
    for name, detail in volumes.storages():
        found.storages.setdefault(name, detail)
    return found


def read_file(found: Source, path: Path) -> None:
    """Add what one file holds."""
    _read(found, _Volumes(), path, str(path))


def _read(found: Source, volumes: _Volumes, path: Path, name: str) -> None:
    try:
        document = _parsed(path)
        if not _take(found, volumes, document, path):
            found.unread.append(("file", name, "it is none of OpenPAI's files that can be imported"))
    except (Refused, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = error.message if isinstance(error, Refused) else f"it is not what OpenPAI writes ({error!r})"
        found.unread.append(("file", name, reason))


def _parsed(path: Path) -> Any:
    text = read_text(path, "a file that was exported from OpenPAI", encoding="utf-8-sig")
    if path.suffix == ".json":
        return json.loads(text)
    return load_yaml(text)


def load_yaml(text: str) -> Any:
    """Return the value of YAML; raise ValueError if it is none, or nested so deeply that loading it would crash."""
    loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > 100:
                raise ValueError("it is nested too deeply")
        return yaml.load(text, Loader=loader)  # noqa: S506  a safe one
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _take(found: Source, volumes: _Volumes, document: Any, path: Path) -> bool:
    """Add what a file holds; return whether it was recognized."""
    if isinstance(document, list):
        return _every(_take_one(found, one) for one in document)
    if not isinstance(document, Mapping):
        return False
    if "machine-list" in document:
        found.machines = tuple(str(one["hostname"]) for one in document["machine-list"] if _is_worker(one))
        return True
    if "physicalCluster" in document:
        found.hived = path.read_text("utf-8-sig")
        return True
    if isinstance(document.get("items"), list):
        return _every(_take_object(found, volumes, one) for one in document["items"])
    if isinstance(document.get("storages"), list):
        return _every(_take_one(found, one) for one in document["storages"])
    if any(key in document for key in ("hivedscheduler", "rest-server", "cluster", "authentication")):
        _take_services(found, document)
        return True
    if document and all(isinstance(one, Mapping) and "resourcesTotal" in one for one in document.values()):
        found.virtual_clusters |= document
        return True
    return _take_object(found, volumes, document) if "kind" in document else _take_one(found, document)


def _every(taken: Iterable[bool]) -> bool:
    """Return whether all were recognized; those after one that was not are taken, too."""
    return False not in list(taken)


def _is_worker(machine: Mapping[str, Any]) -> bool:
    return str(machine.get("pai-worker", machine.get("k8s-role") == "worker")).lower() == "true"


def _take_one(found: Source, document: object) -> bool:
    """Add a user, group or storage in the shape of the REST API; return whether it is one."""
    if not isinstance(document, Mapping):
        return False
    if "username" in document and "grouplist" in document:
        found.users[str(document["username"])] = dict(document)
    elif "groupname" in document:
        found.groups[str(document["groupname"])] = dict(document)
    elif "name" in document and "type" in document and "data" in document:
        found.storages[str(document["name"])] = dict(document)
    else:
        return False
    return True


def _take_services(found: Source, document: Mapping[str, Any]) -> None:
    """Add what services-configuration.yaml says: HiveD's configuration, and the groups of an identity provider."""
    hived = (document.get("hivedscheduler") or {}).get("config")
    if hived:
        found.hived = hived if isinstance(hived, str) else yaml.safe_dump(hived)
    authentication = document.get("authentication") or {}
    managed = authentication.get("group-manager") or {}
    for group in (managed.get("admin-group"), managed.get("default-group"), *(managed.get("grouplist") or ())):
        if isinstance(group, Mapping) and "groupname" in group:
            found.groups.setdefault(str(group["groupname"]), dict(group))
    if authentication.get("OIDC"):
        reason = "its keys differ from ours; write a file for pai up --identity, see docs/sign-on.md"
        found.unread.append(("login", "OIDC", reason))


def _take_object(found: Source, volumes: _Volumes, document: Mapping[str, Any]) -> bool:
    """Add a Kubernetes object: a secret that is a user or group, or a volume that is a storage."""
    kind, namespace = document.get("kind"), document.get("metadata", {}).get("namespace")
    if kind == "Secret" and namespace in ("pai-user-v2", "pai-group"):
        values = secret_values(document)
        name = "username" if namespace == "pai-user-v2" else "groupname"
        for key in ("grouplist", "extension"):
            if key in values:
                values[key] = json.loads(values[key] or "null")
        into = found.users if namespace == "pai-user-v2" else found.groups
        into[str(values[name])] = {key: value for key, value in values.items() if key != "password"}
        return True
    return volumes.take(document)


def secret_values(document: Mapping[str, Any]) -> Document:
    """Return the decoded values of a Kubernetes secret."""
    try:
        return {key: base64.b64decode(value).decode() for key, value in (document.get("data") or {}).items()}
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"a value of secret {document['metadata']['name']} is no base64 of text") from error


class _Volumes:
    """Volumes, claims and secrets of Kubernetes, of which OpenPAI makes storages."""

    def __init__(self) -> None:
        self._claims: dict[str, Mapping[str, Any]] = {}
        self._volumes: dict[str, Mapping[str, Any]] = {}
        self._secrets: dict[str, Document] = {}

    def take(self, document: Mapping[str, Any]) -> bool:
        """Keep an object if it is one of them; return whether it is."""
        name = document.get("metadata", {}).get("name", "")
        kinds = {"PersistentVolume": self._volumes, "PersistentVolumeClaim": self._claims}
        if document.get("kind") == "Secret":
            self._secrets[name] = secret_values(document)
            return True
        if (into := kinds.get(str(document.get("kind")))) is None:
            return False
        into[name] = document
        return True

    def storages(self) -> Iterator[tuple[str, Document]]:
        """Yield each claim as OpenPAI's REST API shows it as a storage."""
        for name, claim in self._claims.items():
            volume = self._volumes.get(claim.get("spec", {}).get("volumeName", ""), {})
            kind, data, is_read_only = self._data(volume.get("spec", {}))
            share = (claim["metadata"].get("labels") or {}).get("share") != "false"
            yield name, {"name": name, "type": kind, "data": data, "readOnly": is_read_only, "share": share}

    def _data(self, spec: Mapping[str, Any]) -> tuple[str, Document, bool]:
        if "nfs" in spec:
            nfs = spec["nfs"]
            return "nfs", {"server": nfs["server"], "path": nfs["path"]}, bool(nfs.get("readOnly"))
        if "azureFile" in spec:
            file = spec["azureFile"]
            return "azureFile", {"shareName": file["shareName"], **self._account(file)}, bool(file.get("readOnly"))
        flex = spec.get("flexVolume") or {}
        options, is_read_only = flex.get("options") or {}, bool(flex.get("readOnly"))
        if flex.get("driver") == "azure/blobfuse":
            data = {"containerName": options.get("container", ""), **self._account(flex.get("secretRef") or {})}
            return "azureBlob", data, is_read_only
        if flex.get("driver") == "microsoft.com/smb":
            secret = self._secrets.get((flex.get("secretRef") or {}).get("name", ""), {})
            kept: Document = {key: secret[key] for key in ("username", "password") if key in secret}
            return "samba", {"address": options.get("source", ""), **kept}, is_read_only
        return "other", {}, False

    def _account(self, reference: Mapping[str, Any]) -> Document:
        secret = self._secrets.get(str(reference.get("secretName") or reference.get("name") or ""), {})
        names = {
            "accountName": ("azurestorageaccountname", "accountname"),
            "accountKey": ("azurestorageaccountkey", "accountkey"),
            "accountSASToken": ("azurestorageaccountsastoken", "accountsastoken"),
        }
        return {key: secret[one] for key, of in names.items() for one in of if one in secret}
