"""`pai cluster bundle`: everything that an installation without a network needs, in one file with checksums.

The file is a tar of the chart, the images, the definition of Framework objects, and a manifest with the digest of each.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Annotated, Any, Final

from openpai.app.cluster.helm import chart_directory
from openpai.app.cluster.images import place, push, read_archive
from openpai.app.cluster.target import Chart
from openpai.cli import formatting
from openpai.cli.options import argument, option
from openpai.cli.output import Json, aside, done
from openpai.protocol.errors import BadConfiguration, PaiError, Unavailable

MANIFEST: Final = "bundle.json"
FORMAT: Final = 1
_CHUNK: Final = 1 << 20
_MEMBERS_MAX: Final = 1_000
_AGAIN: Final = "copy the file once more, or make it again with: pai cluster bundle"

Registry = Annotated[
    str | None, option("--registry HOST/PATH", "Push the images of the bundle to this registry, which nodes pull from.")
]
Containerd = Annotated[
    Path | None, option("--containerd SOCKET", "Import the images of the bundle into the containerd of this node.")
]


@dataclass(frozen=True)
class Bundle:
    """A bundle that was unpacked and compared with its checksums."""

    chart: Path
    images: tuple[Path, ...]
    """The first one is that of the server."""
    version: str


def bundle(
    file: Annotated[Path, argument("FILE", "The file to write, such as openpai-bundle.tar.")],
    image: Annotated[
        list[str], option("--image NAME", "Image of the server, or an archive of it; more for further images.")
    ],
    chart: Chart = None,
    force: Annotated[bool, option("--force", "Replace FILE if it exists.")] = False,
    json: Json = False,
) -> None:
    """Write chart, images and definitions to one file, for `pai cluster up --bundle` without a network.

    An image is the path of an archive (`docker save`), or a name, which is saved with docker or podman.
    """
    file = file.expanduser()
    if file.exists() and not force:
        raise BadConfiguration(f"{file} exists already", "choose another name, or use --force to replace it")
    unfinished = file.with_name(f".{file.name}.part")
    try:
        with tempfile.TemporaryDirectory(prefix="pai-bundle-", dir=file.absolute().parent) as work:
            archives = [_archive(one, Path(work) / f"{number}.tar") for number, one in enumerate(image)]
            manifest = _write(unfinished, chart or chart_directory(), archives)
            unfinished.replace(file)
    except OSError as error:
        message = f"the bundle {file} cannot be written: {error.strerror or error}"
        raise Unavailable(message, "correct that, and try again") from error
    finally:
        unfinished.unlink(missing_ok=True)
    summary = f"{file} ({formatting.size(file.stat().st_size)}) holds openpai {manifest['version']}: "
    summary += ", ".join(("chart", *manifest["images"].values()))
    done(json, {"file": str(file), **manifest}, summary, f"pai cluster up --bundle {file} --registry HOST")


def _archive(image: str, target: Path) -> Path:
    """Return the archive of an image, which an engine of this machine saves if it is a name."""
    if not image.isprintable():
        raise BadConfiguration(f"an image cannot be named {image!r}", "give the name of an image, or of its archive")
    given = Path(image).expanduser()
    if given.is_file():
        return given
    engine = shutil.which("docker") or shutil.which("podman")
    if engine is None:
        message = f"there is no file {image}, and neither docker nor podman to save an image of that name"
        raise BadConfiguration(message, "give the path of an archive: docker save NAME:TAG -o FILE")
    aside(f"saving {image}")
    is_saved, text = _run(engine, "save", image, "-o", str(target))
    if not is_saved:
        raise _not_saved(engine, image, text)
    return target


def _not_saved(engine: str, image: str, why: str) -> PaiError:
    """Return the error for an image that an engine did not save: it may be down, have no such image, or lack room."""
    name = Path(engine).name
    answers, silence = _run(engine, "version")
    if not answers:
        advice = f"start {name}, or give the path of an archive: docker save NAME:TAG -o FILE"
        return Unavailable(f"{name} does not answer, so it saved no image {image}: {silence}", advice)
    has_image, _ = _run(engine, "image", "inspect", image)
    if not has_image:
        return BadConfiguration(f"{name} save {image}: {why}", "pull or build the image first")
    return Unavailable(f"{name} save {image}: {why}", "correct that, and try again")


def _run(*command: str) -> tuple[bool, str]:
    """Return whether a command succeeded, and what it printed then, or else its errors."""
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    is_done = ran.returncode == 0
    return is_done, " ".join((ran.stdout if is_done else ran.stderr).split())[:300]


def _write(target: Path, chart: Path, archives: Sequence[Path]) -> dict[str, Any]:
    from openpai.frameworks.objects import crd

    files: dict[str, Any] = {}
    names: dict[str, str] = {}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            _add(tar, files, f"chart/{path.relative_to(chart)}", path.open("rb"))
        _add(tar, files, "crds/framework.yaml", io.BytesIO(crd().encode()))
        for number, path in enumerate(archives):
            member = f"images/{number}.tar"
            with read_archive(path) as archive:
                names[member] = archive.name
            _add(tar, files, member, path.open("rb"))
        manifest = {"format": FORMAT, "version": version("openpai"), "images": names, "files": files}
        _add(tar, {}, MANIFEST, io.BytesIO(json.dumps(manifest, indent=1).encode()))
    return manifest


def _add(tar: tarfile.TarFile, files: dict[str, Any], name: str, source: IO[bytes]) -> None:
    with source:
        member = tarfile.TarInfo(name)
        member.size = source.seek(0, io.SEEK_END)
        source.seek(0)
        reading = _Hashing(source)
        tar.addfile(member, reading)
        files[name] = {"size": member.size, "sha256": reading.digest.hexdigest()}


class _Hashing:
    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


@contextmanager
def opened(file: Path) -> Iterator[Bundle]:
    """Unpack a bundle and compare it with its checksums; what was unpacked is removed at the end."""
    file = file.expanduser()
    with tempfile.TemporaryDirectory(prefix="pai-bundle-") as work:
        try:
            manifest = _unpack(file, Path(work))
        except (tarfile.TarError, ValueError, KeyError, EOFError, TypeError) as error:
            raise _damaged(file, str(error)) from error
        except OSError as error:
            message = f"the bundle {file} cannot be unpacked: {error.strerror or error}"
            raise BadConfiguration(
                message, "name a file of `pai cluster bundle`, and set TMPDIR to a place with room"
            ) from error
        images = tuple(Path(work) / name for name in sorted(manifest["images"]))
        yield Bundle(Path(work) / "chart", images, manifest["version"])


def _unpack(file: Path, target: Path) -> dict[str, Any]:
    digests: dict[str, Any] = {}
    manifest: dict[str, Any] | None = None
    with tarfile.open(file, "r:") as tar:
        for number, member in enumerate(tar):
            parts = Path(member.name).parts
            if not member.isreg() or ".." in parts or member.name.startswith("/") or number > _MEMBERS_MAX:
                raise _damaged(file, f"{member.name[:100]!r} does not belong there")
            content = tar.extractfile(member)
            assert content is not None  # noqa: S101  # a regular file has content
            if member.name == MANIFEST:
                manifest = json.loads(content.read(_CHUNK))
                continue
            place = target / member.name
            place.parent.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            with place.open("xb") as made:
                while data := content.read(_CHUNK):
                    digest.update(data)
                    made.write(data)
            digests[member.name] = {"size": member.size, "sha256": digest.hexdigest()}
    if manifest is None:
        raise _damaged(file, "it ends too early, or is no bundle")
    if int(manifest["format"]) > FORMAT:
        message = f"{file} was written by a newer openpai ({manifest.get('version', '?')})"
        raise BadConfiguration(message, "use the `pai` of that version")
    wrong = [name for name in {*manifest["files"], *digests} if manifest["files"].get(name) != digests.get(name)]
    if wrong:
        raise _damaged(file, f"{min(wrong)} differs from its checksum")
    return manifest


def _damaged(file: Path, why: str) -> BadConfiguration:
    return BadConfiguration(f"the bundle {file} is damaged or incomplete: {why}", _AGAIN)


def image_values(bundle: Bundle, registry: str | None) -> list[str]:
    """Return the values of the chart that name the server's image as the nodes will find it."""
    with read_archive(bundle.images[0]) as archive:
        name, _, tag = archive.name.rpartition(":")
    if registry is not None:
        name = place(registry).image(archive.name)
    return [f"image.repository={name}", f"image.tag={tag}"]


def deliver(bundle: Bundle, registry: str | None, containerd: Path | None) -> None:
    """Bring the images of a bundle where nodes find them: into a registry, or into the containerd of this node."""
    for path in bundle.images:
        if registry is not None:
            with read_archive(path) as archive:
                aside(f"pushing {archive.name} to {registry}")
                aside(f"pushed {push(archive, place(registry))}")
        if containerd is not None:
            _import(path, containerd)


def _import(path: Path, socket: Path) -> None:
    program = shutil.which("ctr")
    if program is None:
        message = "there is no ctr on this machine, so it is no node with containerd"
        raise BadConfiguration(message, "run this on a node, or use --registry")
    is_done, text = _run(program, "--address", str(socket), "--namespace", "k8s.io", "images", "import", str(path))
    if not is_done:
        raise Unavailable(f"containerd at {socket} did not import an image: {text}", "check --containerd, as root")
    aside(f"imported {text}")
