"""A full disk is reported and survived: users log in and stop jobs on it; a server starts on it or says why not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server import PASSWORD, Server, refused, until
from tests.e2e.test_bad_starts import started

LOGINS = 20


@pytest.fixture(params=["tmpfs", pytest.param("ext4", marks=pytest.mark.full)])
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk of a few megabytes."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    command: list[Path | str] = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", mounted]
    if request.param == "ext4":
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(24 << 20)
        # Root may fill all of it.
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        command = ["mount", "-o", "loop", image, mounted]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", "-l", mounted], check=True)


def test_on_a_full_disk_people_log_in_and_stop_jobs(small_disk: Path, tmp_path: Path) -> None:
    server = started(small_disk / "data", tmp_path)
    try:
        assert server.submit("before", "sleep 600").status_code == 202
        until_it_owns_room(small_disk / "data")
        fill(small_disk / "ballast")
        answers = [server.submit(f"full{number}", f": {'x' * 100_000}") for number in range(20)]
        refusals = [answer for answer in answers if answer.status_code != 202]
        assert refusals, "the disk was never full"
        for answer in refusals:
            body: dict[str, Any] = answer.json()
            assert (answer.status_code, body["code"]) == (503, "UnavailableError"), body
            assert "disk is almost full" in body["message"]
        ready = httpx.get(f"{server.url}/readyz")
        assert (ready.status_code, "disk: " in ready.json()["message"]) == (503, True), ready.text
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        for _ in range(LOGINS):
            assert login(server).status_code == 200
            fill(small_disk / "ballast2")
        stopped = server.http.put("/jobs/admin~before/executionType", json={"value": "STOP"})
        assert stopped.status_code == 202, stopped.text
        assert server.ended("before") == "STOPPED"
        for left in small_disk.glob("ballast*"):
            left.unlink()
        for number, answer in enumerate(answers):
            is_there = server.http.get(f"/jobs/admin~full{number}").status_code == 200
            assert is_there == (answer.status_code == 202), "half done"
        # The platform notices within a moment that there is space again.
        until(lambda: server.submit("after", "true").status_code == 202, "a job is taken")
        assert server.ended("after") == "SUCCEEDED"
    finally:
        assert server.end() == 0
    assert "Traceback" not in server.log()


def test_a_server_starts_on_a_full_disk_or_says_in_a_sentence_why_not(small_disk: Path, tmp_path: Path) -> None:
    fill(small_disk / "ballast")
    message = refused("--data-dir", small_disk / "data", "--backend", "simulated")
    assert "is full" in message
    assert "free some space" in message
    (small_disk / "ballast").unlink()
    server = started(small_disk / "data", tmp_path)
    until_it_owns_room(small_disk / "data")
    assert server.end() == 0
    fill(small_disk / "ballast")
    server = started(small_disk / "data", tmp_path)
    try:
        assert login(server).status_code == 200
    finally:
        assert server.end() == 0


def login(server: Server) -> httpx.Response:
    return server.http.post("/authn/basic/login", json={"username": "admin", "password": PASSWORD})


def until_it_owns_room(data: Path) -> None:
    """Wait until the server has taken what it keeps for a full disk."""
    until((data / "reserve").exists, "it has a reserve")


def fill(ballast: Path) -> None:
    """Write until nothing fits any more."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
