"""Pulls images: each at most once at a time, with progress for each task that waits for it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.backends.docker.engine import Engine, EngineError
from openpai.ports.backend import RegistryAuth, TaskStep

TRIES: Final = 3
TRY_AGAIN_S: Final = 2.0
SILENCE_S: Final = 600.0
"""How long the Engine may be silent during a pull: longer than it takes to verify the largest layers."""
_REPORT_EVERY_S: Final = 5.0
_NOTE_EVERY_S: Final = 60.0
"""How often the progress of a pull is reported in the events of jobs."""
_HUB: Final = "docker.io"
# What the Engine would read as another address is not a name; the Engine checks the rest.
_NAME: Final = re.compile(r"(?!.*/\.)[\w\[][\w.:/@\[\]-]*", re.ASCII)
_WILL_NEVER_COME: Final = re.compile(
    r"manifest unknown|manifest for .* not found|not found|does not exist|access denied|unauthorized|"
    r"authentication required|no basic auth|forbidden|invalid reference|no matching manifest|name unknown|"
    r"incorrect username or password",
    re.IGNORECASE,
)

Note = Callable[[str, TaskStep], None]
"""Receives a message and the kind of step."""


class ImageMissing(EngineError):
    """The image does not exist or its registry refuses access; another try will not help."""


@dataclass(slots=True)
class _Pull:
    task: asyncio.Task[None]
    notes: list[Note] = field(default_factory=list)
    message: tuple[str, TaskStep] | None = None
    """The last report, for tasks that join later."""


@dataclass(slots=True)
class _Progress:
    """The progress of an image's layers, as far as the Engine has reported them."""

    done: dict[str, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)

    def learn(self, message: Mapping[str, Any]) -> None:
        """Add one progress message of the Engine."""
        layer, detail = str(message.get("id", "")), message.get("progressDetail") or {}
        if message.get("status") == "Downloading" and "total" in detail:
            self.done[layer] = int(detail.get("current", 0))
            self.total[layer] = int(detail["total"])
        elif message.get("status") in ("Download complete", "Pull complete") and layer in self.total:
            self.done[layer] = self.total[layer]

    def describe(self) -> str:
        """Return the progress in words."""
        done, total = sum(self.done.values()) >> 20, sum(self.total.values()) >> 20
        complete = sum(self.done[layer] >= self.total[layer] for layer in self.total)
        return f"{done} of {total} MB, {complete} of {len(self.total)} layers that are being fetched"


class Images:
    """The images of one Engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pulls: dict[tuple[str, RegistryAuth | None], _Pull] = {}

    async def ensure(self, image: str, auth: RegistryAuth | None, note: Note) -> None:
        """Return once the image is on this machine. Raises ImageMissing, or EngineError if trying later may help.

        A local image is not pulled again, so a job also runs while its registry does not answer.
        """
        if not _NAME.fullmatch(image):
            raise ImageMissing(f"{image!r} cannot be the name of an image")
        if await self._engine.has_image(image):
            return
        pull = self._pulls.get((image, auth))
        if pull is None:
            task = asyncio.create_task(self._pull(image, auth), name=f"pull {image}")
            pull = self._pulls[image, auth] = _Pull(task)
            task.add_done_callback(lambda _: self._pulls.pop((image, auth), None))
        pull.notes.append(note)
        if pull.message is not None:
            note(*pull.message)
        try:
            # Others may wait for the same image when this attempt is killed.
            await asyncio.shield(pull.task)
        finally:
            pull.notes.remove(note)

    async def close(self) -> None:
        """Stop waiting for pulls; the Engine cancels them."""
        tasks = [pull.task for pull in self._pulls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pull(self, image: str, auth: RegistryAuth | None) -> None:
        for tries in range(1, TRIES + 1):
            try:
                await self._pull_once(image, auth)
            except EngineError as error:
                if _WILL_NEVER_COME.search(str(error)):
                    raise ImageMissing(f"image {image!r} cannot be pulled: {error}") from error
                if tries == TRIES:
                    # The type is kept: the launcher decides by it whether to try again.
                    raise type(error)(f"image {image!r} cannot be pulled: {error}") from error
                self._report(
                    image, auth, f"pulling {image} failed and is tried again: {error}", TaskStep.IMAGE_PULL_FAILED
                )
                await asyncio.sleep(TRY_AGAIN_S * tries)
            else:
                return

    async def _pull_once(self, image: str, auth: RegistryAuth | None) -> None:
        self._report(image, auth, f"pulling image {image}", TaskStep.PULLING_IMAGE)
        began = reported = noted = time.monotonic()
        progress = _Progress()
        header = None if auth is None else {"username": auth.username, "password": auth.password}
        named = full_name(tagged(image)) if header else tagged(image)
        try:
            async with asyncio.timeout(SILENCE_S) as patience:
                async for message in self._engine.pull(named, header):
                    patience.reschedule(asyncio.get_running_loop().time() + SILENCE_S)
                    progress.learn(message)
                    if time.monotonic() - reported > _REPORT_EVERY_S and progress.total:
                        reported = time.monotonic()
                        is_event = reported - noted > _NOTE_EVERY_S
                        noted = reported if is_event else noted
                        self._report(
                            image,
                            auth,
                            f"pulling {image}: {progress.describe()}",
                            TaskStep.PULLING_IMAGE if is_event else TaskStep.NONE,
                        )
        except TimeoutError as error:
            raise EngineError(f"the pull of {image} made no progress for {SILENCE_S:g} s") from error
        self._report(image, auth, f"image {image} pulled in {time.monotonic() - began:.0f} s", TaskStep.IMAGE_PULLED)

    def _report(self, image: str, auth: RegistryAuth | None, message: str, step: TaskStep) -> None:
        pull = self._pulls.get((image, auth))
        if pull is None:
            return
        pull.message = (message, step)
        for note in list(pull.notes):
            note(message, step)


def tagged(image: str) -> str:
    """Return the image's name with a tag or a digest: without one an Engine would pull all tags."""
    return image if re.search(r"[:@][^/]*$", image) else f"{image}:latest"


def full_name(image: str) -> str:
    """Return the image's name with its registry, to find its credentials."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{_HUB}/{image}" if slash else f"{_HUB}/library/{image}"
