"""Reads image archives (`docker save`, `podman save`, `ctr images export`) and pushes them to a registry.

The registry's side is the OCI distribution API. Layers go as they are in the archive.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self
from urllib.parse import urljoin, urlsplit

import httpx

from openpai.protocol.errors import BadConfiguration, Unavailable

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CHUNK: Final = 1 << 20
_PATIENCE: Final = httpx.Timeout(30, read=300, write=300)
_DOCKER_CONFIG: Final = "~/.docker/config.json"
_HOST: Final = re.compile(r"[A-Za-z0-9.\-\[\]:]+")
_NAME: Final = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")


@dataclass(frozen=True)
class Piece:
    """A blob of an image in an archive."""

    member: str
    digest: str
    size: int
    media_type: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as a manifest has it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


class Archive:
    """An image in a file."""

    def __init__(self, tar: tarfile.TarFile, path: Path) -> None:
        self._tar, self._path = tar, path
        try:
            found = json.loads(self._read("manifest.json"))[0]
            self.name = str((found.get("RepoTags") or [""])[0])
            self.config = self._piece(found["Config"], _CONFIG)
            self.layers = [self._piece(layer, _LAYER) for layer in found["Layers"]]
        except (KeyError, IndexError, TypeError, ValueError, tarfile.TarError) as error:
            message = f"{path} is not an archive of one image: {error}"
            raise BadConfiguration(message, "make one with: docker save IMAGE -o FILE") from error
        if not self.name:
            advice = "save it by its name: docker save NAME:TAG -o FILE"
            raise BadConfiguration(f"the image in {path} has no name", advice)

    def open(self, piece: Piece) -> IO[bytes]:
        """Return a blob as a file."""
        found = self._tar.extractfile(piece.member)
        if found is None:
            raise BadConfiguration(f"{piece.member} is missing in {self._path}", "make the archive again")
        return found

    def manifest(self) -> bytes:
        """Return the manifest under which a registry serves the image."""
        layers = [layer.as_dict() for layer in self.layers]
        whole = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": self.config.as_dict(), "layers": layers}
        return json.dumps(whole).encode()

    def _read(self, member: str) -> bytes:
        found = self._tar.extractfile(member)
        if found is None:
            raise KeyError(member)
        with found:
            return found.read(_CHUNK)

    def _piece(self, member: str, media_type: str) -> Piece:
        found = self._tar.extractfile(member)
        if found is None:
            raise KeyError(member)
        digest, size, head = hashlib.sha256(), 0, b""
        with found:
            while data := found.read(_CHUNK):
                head = head or data[:2]
                size += len(data)
                digest.update(data)
        packed = "+gzip" if head == b"\x1f\x8b" and media_type == _LAYER else ""
        return Piece(member, f"sha256:{digest.hexdigest()}", size, media_type + packed)


@contextmanager
def read_archive(path: Path) -> Iterator[Archive]:
    """Open an archive of one image. Raises Refused for any other file."""
    try:
        tar = tarfile.open(path)  # noqa: SIM115  # closed below
    except (OSError, tarfile.TarError) as error:
        message = f"{path} cannot be read as an archive of an image: {error}"
        raise BadConfiguration(message, "make one with: docker save IMAGE -o FILE") from error
    with tar:
        yield Archive(tar, path)


@dataclass(frozen=True)
class Place:
    """Where in which registry images go."""

    url: str
    host: str
    prefix: str

    def repository(self, image: str) -> str:
        """Return the repository for an image, without the registry."""
        last = image.rpartition(":")[0] or image
        last = last.rpartition("/")[2]
        return f"{self.prefix}/{last}" if self.prefix else last

    def image(self, image: str) -> str:
        """Return the name by which nodes pull an image."""
        return f"{self.host}/{self.repository(image)}"


def place(registry: str) -> Place:
    """Read HOST[:PORT][/PATH]; `http://` before it is for a registry without TLS."""
    parts = urlsplit(registry if "://" in registry else f"https://{registry}")
    prefix = parts.path.strip("/")
    if not _HOST.fullmatch(parts.netloc) or (prefix and not _NAME.fullmatch(prefix)):
        message = f"--registry {registry!r} is not HOST[:PORT][/PATH]"
        raise BadConfiguration(message, "give it as in registry.example.org/ai")
    return Place(f"{parts.scheme}://{parts.netloc}", parts.netloc, prefix)


def push(archive: Archive, to: Place) -> str:
    """Push an image; what the registry has already is not sent again. Return the name by which it is pulled."""
    repository, tag = to.repository(archive.name), archive.name.rpartition(":")[2]
    with _Registry(to, repository) as registry:
        for piece in (*archive.layers, archive.config):
            registry.send(archive, piece)
        registry.put_manifest(tag, archive.manifest())
    return f"{to.image(archive.name)}:{tag}"


class _Registry:
    """A repository in a registry, with the credentials that `docker login` stored."""

    def __init__(self, to: Place, repository: str) -> None:
        self._to, self._repository = to, repository
        self._base = f"{to.url}/v2/{repository}"
        self._client = httpx.Client(timeout=_PATIENCE, follow_redirects=True)
        self._basic = _stored(to.host)
        self._header: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, archive: Archive, piece: Piece) -> None:
        """Upload a blob unless it is there."""
        if self._ask("HEAD", f"{self._base}/blobs/{piece.digest}", ok=(200, 404)).status_code == 200:
            return
        begun = self._ask("POST", f"{self._base}/blobs/uploads/", ok=(202,))
        place = httpx.URL(urljoin(f"{self._base}/", begun.headers["Location"]))
        place = place.copy_merge_params({"digest": piece.digest})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(piece.size)}
        with archive.open(piece) as blob:
            self._ask("PUT", str(place), ok=(201,), content=iter(lambda: blob.read(_CHUNK), b""), headers=headers)

    def put_manifest(self, tag: str, manifest: bytes) -> None:
        """Give the image its tag, which completes it."""
        headers = {"Content-Type": _MANIFEST}
        self._ask("PUT", f"{self._base}/manifests/{tag}", ok=(201,), content=manifest, headers=headers)

    def _ask(self, method: str, url: str, *, ok: tuple[int, ...], **more: Any) -> httpx.Response:
        headers = {**more.pop("headers", {}), **self._header}
        try:
            answer = self._client.request(method, url, headers=headers, **more)
            if answer.status_code == 401 and not self._header:
                self._header = {"Authorization": self._authorization(answer.headers.get("WWW-Authenticate", ""))}
                answer = self._client.request(method, url, headers={**headers, **self._header}, **more)
        except httpx.HTTPError as error:
            message = f"the registry {self._to.host} does not answer: {error}"
            raise Unavailable(message, "check its name; http:// before it is for one without TLS") from error
        if answer.status_code in (401, 403):
            message = f"the registry {self._to.host} does not let you write to {self._repository}"
            raise BadConfiguration(message, f"log in first: docker login {self._to.host}")
        if answer.status_code not in ok:
            body = " ".join(answer.text.split())[:200]
            message = f"the registry {self._to.host} answered {answer.status_code} to {method} {url}: {body}"
            raise Unavailable(message, "run the command again; what was sent is not sent again")
        return answer

    def _authorization(self, challenge: str) -> str:
        kind, _, rest = challenge.partition(" ")
        if kind.lower() != "bearer":
            return f"Basic {self._basic}"
        given = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        query = {"service": given.get("service", ""), "scope": f"repository:{self._repository}:pull,push"}
        headers = {"Authorization": f"Basic {self._basic}"} if self._basic else {}
        answer = self._client.get(given.get("realm", ""), params=query, headers=headers)
        found = answer.json() if answer.status_code == 200 else {}
        return f"Bearer {found.get('token') or found.get('access_token') or ''}"


def _stored(host: str) -> str:
    """Return the credentials of a registry in Docker's configuration, in base64; empty without any."""
    try:
        found = json.loads(Path(_DOCKER_CONFIG).expanduser().read_text("utf-8"))["auths"][host]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    user, password = found.get("username"), found.get("password")
    return str(found.get("auth") or (base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""))
