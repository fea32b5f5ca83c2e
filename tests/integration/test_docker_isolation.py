"""Hostile containers on a real Engine: what one may not do to the machine, to the platform, and to other jobs."""

from __future__ import annotations

import contextlib
import functools
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openpai.backends.docker.security import Allowed
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.logs.files import FileLogs
from openpai.ports.backend import Backend, KillTask
from tests.contracts.seen import Watch, a_key, a_launch, forget, ran
from tests.integration.docker_engine import another_engine, ask, build, engine, root_files, socket_at_engine

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.app.clock import SystemClock
from openpai.backends.docker.backend import DockerBackend
from openpai.backends.docker.containers import MOUNT
from openpai.backends.docker.engine import Engine
from tests.contracts.docker_harness import DockerHarness

PROGRAMS = ("busybox", "chmod", "setpriv")
IMAGE = "openpai-hostile:1"
PIDS = 40
LISTENS = "busybox nc -ll -p 15000 -e busybox echo reached"
ANSWER = "reached"


@functools.cache
def hostile_image() -> str:
    """Make an image with the tools of an attacker; return why there is none, or nothing."""
    url, why_not = engine(has_filters=True)
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if why_not or missing:
        return why_not or f"the image needs programs that are not here: {', '.join(missing)}"
    make_image(url)
    return ""


def make_image(url: str) -> None:
    steps = ("FROM scratch", "COPY root /", "RUN cp /bin/id /bin/setuid-id && chmod 6755 /bin/setuid-id")
    build(url, IMAGE, *steps, files=root_files("cp", *PROGRAMS))


class HostileHarness(DockerHarness):
    """A docker backend whose image is an attacker's, with what an administrator allows."""

    image = IMAGE

    def __init__(self, directory: Path, **allowed: Any) -> None:
        super().__init__(directory)
        self.url, _ = engine(has_filters=True)
        self.allowed = Allowed(**{"pids_max": PIDS, **allowed})

    def make(self) -> Backend:
        return DockerBackend(self.root, self.logs, SystemClock(), url=self.url, gpus_per_node=4, allowed=self.allowed)

    async def run(self, commands: str, key: AttemptKey | None = None, **rest: Any) -> str:
        """Return what a task said to its standard output, once it is over."""
        key = key or a_key()
        backend = self._backend or await self.start()
        await backend.apply([a_launch(self, key, f"set +e\n{commands}", **rest)])
        (report,) = await Watch(backend).until_over(key)
        assert report.reason is ExitReason.EXITED, report
        return self.output(key)


@contextlib.asynccontextmanager
async def a_world(directory: Path, **allowed: Any) -> AsyncIterator[HostileHarness]:
    if reason := hostile_image():
        pytest.skip(reason)
    async with HostileHarness(directory, **allowed) as made:
        yield made


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[HostileHarness]:
    async with a_world(tmp_path) as made:
        yield made


@contextlib.contextmanager
def a_service(address: str) -> Iterator[int]:
    """Answer at an address of the Engine's machine, as the platform does, and give the port."""
    with socket_at_engine(engine(has_filters=True)[0]) as listener:
        listener.bind((address, 0))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(f"{ANSWER}\n".encode())

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def calls(address: str, port: int) -> str:
    """Return commands that say what is heard at an address."""
    return f"busybox nc -w 3 {address} {port} </dev/null"


def at_once(commands: list[str]) -> str:
    """Return commands that carry out these side by side: each call that is dropped takes its time."""
    return " &\n".join(commands) + "\nwait"


def until_heard(call: str) -> str:
    """Return commands that connect until a server answers, and print the answer."""
    # The Engine answers for a port that it publishes before the task does.
    return f'heard=; while [ -z "$heard" ]; do heard=$({call}) || sleep 0.1; done; echo "$heard"'


def other_job() -> AttemptKey:
    return AttemptKey("f" * 32, 0, "Worker_A", 0, 0)


async def test_a_task_sees_no_packets_of_others(world: HostileHarness) -> None:
    message = await world.run("busybox arping -c 1 -I lo 127.0.0.1 2>&1; busybox arping -c 1 -I eth0 127.0.0.1 2>&1")
    assert message.count("Operation not permitted") == 2, message
    assert "Operation not permitted" in await world.run("busybox traceroute -I 127.0.0.1 2>&1", a_key(1))


async def test_a_task_on_the_machines_network_sees_no_packets_either(tmp_path: Path) -> None:
    async with a_world(tmp_path, host_network=True) as world:
        with a_service("127.0.0.1") as port:
            message = await world.run(f"busybox arping -c 1 -I lo 127.0.0.1 2>&1\n{calls('127.0.0.1', port)}")
        assert "Operation not permitted" in message
        assert ANSWER in message, "this is what --host-network allows, and why it is off"
        assert (await world.run("echo x >/proc/sys/kernel/hostname", a_key(1))) == ""


async def test_the_api_that_listens_on_loopback_is_not_reached(world: HostileHarness) -> None:
    backend = await world.start()
    (node,) = await backend.nodes()
    with a_service("127.0.0.1") as port, a_service("0.0.0.0") as open_port:
        gateway = "$(busybox ip route | while read -r a b c d; do [ $a = default ] && echo $c; done)"
        attempts = [calls(address, port) for address in ("127.0.0.1", node.address, gateway)]
        # Through another interface than the loopback one, which only a raw socket or another route could do.
        attempts.append(f"busybox ip route add 127.0.0.0/8 via {gateway} 2>&1 && echo routed")
        message = await world.run("\n".join([calls(node.address, open_port), "echo --", at_once(attempts)]))
        heard, _, rest = message.partition("--")
        assert heard.strip() == ANSWER, "who listens on all addresses is reached: the test could have failed"
        assert ANSWER not in rest
        assert "routed" not in rest


async def test_rights_are_not_gained(world: HostileHarness) -> None:
    message = await world.run(
        """
busybox mount -t tmpfs none /tmp 2>&1 && echo mounted
busybox mount -o remount,rw /proc/sys 2>&1 && echo remounted
busybox unshare -r busybox id -u 2>&1 && echo got a namespace
busybox mknod /tmp/disk b 254 0 2>&1 && echo made a device
busybox mknod /tmp/mem c 1 1 2>&1 && echo made memory
busybox chroot / /bin/busybox nsenter -t 1 -m 2>&1 && echo entered
echo 1 2>/dev/null >/proc/sys/kernel/core_pattern && echo wrote a sysctl
echo 1 2>/dev/null >/proc/sysrq-trigger && echo wrote sysrq
for group in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -e $group/cgroup.procs ] || continue
    busybox mkdir $group/mine 2>/dev/null && echo made a cgroup in $group
    (echo 1 >$group/release_agent) 2>/dev/null && echo wrote release_agent in $group
done
for socket in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock; do
    [ -e $socket ] && echo found $socket
done
for file in /dev/kmsg /dev/mem /dev/vda /dev/sda /dev/kvm; do [ -e $file ] && echo found $file; done
busybox grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status
exit 0"""
    )
    bad = ("mounted", "got a", "made a", "made memory", "entered", "wrote", "found")
    assert not [line for line in message.splitlines() if line.startswith(bad)], message
    facts = dict(line.split(":") for line in message.splitlines() if line.startswith(("CapEff", "NoNew", "Seccomp")))
    assert (facts["NoNewPrivs"].strip(), facts["Seccomp"].strip()) == ("1", "2")
    # chown 0, dac_override 1, fowner 3, fsetid 4, kill 5, setgid 6, setuid 7, net_bind_service 10, sys_chroot 18,
    # audit_write 29
    assert int(facts["CapEff"], 16) == sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 10, 18, 29))


SETUID = "setpriv --reuid=1000 --clear-groups --inh-caps=-all /bin/setuid-id -u"


async def test_a_setuid_program_gives_no_rights_unless_allowed(world: HostileHarness, tmp_path: Path) -> None:
    assert await world.run(SETUID) == "1000\n"
    async with a_world(tmp_path / "allowed", setuid=True) as lenient:
        assert await lenient.run(SETUID, other_job()) == "0\n"


async def test_what_ordinary_images_do_goes_on(world: HostileHarness) -> None:
    message = await world.run(
        """
busybox mkdir /data && busybox chown 1000:1000 /data && echo owned
setpriv --reuid=1000 --regid=1000 --clear-groups sh -c 'id -u; echo mine >/data/file; sleep 100' &
while [ ! -s /data/file ]; do sleep 0.02; done
echo more >>/data/file && busybox chmod 600 /data/file && echo overridden
kill $! && echo killed
busybox chroot / /bin/busybox echo chrooted
busybox timeout 1 busybox nc -l -p 22; [ $? != 1 ] && echo bound
exit 0"""
    )
    assert message.split() == ["owned", "1000", "overridden", "killed", "chrooted", "bound"]


async def test_a_fork_bomb_is_bounded(world: HostileHarness) -> None:
    backend = await world.start()
    bomb = "n=0; while :; do sleep 1000 & n=$((n + 1)); echo $n; done"
    held = f"busybox mkfifo /tmp/never\n({bomb}) 2>/dev/null\necho over\nread -r _ </tmp/never"
    await backend.apply([a_launch(world, a_key(), f"set +e\n{held}", memory_mb=256)])
    await world.until_printed(a_key(), "over")
    *_, most, _ = world.output(a_key()).split()
    assert PIDS // 2 < int(most) < PIDS
    assert PIDS // 2 < world.processes(a_key()) <= PIDS
    # The machine still starts tasks, and this one ends as any other.
    assert await world.run("echo alive", a_key(1)) == "alive\n"
    await backend.apply([KillTask(a_key(), 0.1)])
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code in (137, 143), world.processes(a_key())) == (True, 0)


async def test_tasks_of_one_job_reach_each_other_and_no_other_jobs(world: HostileHarness) -> None:
    """What a job does not ask a port for is its own; its ports are published for all clients that reach the machine."""
    backend = await world.start()
    (node,) = await backend.nodes()
    waits = f"{LISTENS} &\n{LISTENS.replace('15000', '4000')} &\nbusybox hostname -i\nwait"
    await backend.apply([a_launch(world, a_key(), waits, ports=(15000, 15001))])
    await world.until_printed(a_key(), "\n")
    inside = world.output(a_key()).strip()
    reach = [calls(node.address, 15000), calls(inside, 15000), calls(inside, 4000)]
    peer = "\n".join(map(until_heard, reach))
    assert await world.run(peer, a_key(1)) == f"{ANSWER}\n" * 3, "by PAI_HOST_IP, and directly"
    attempts = [calls(inside, 15000), calls(inside, 4000), calls(node.address, 4000)]
    assert await world.run(at_once(attempts), other_job(), ports=(15010,)) == ""
    # From the machine, as people reach it.
    with socket_at_engine(world.url) as asked:
        asked.settimeout(10)
        asked.connect(("127.0.0.1", 15000))
        assert asked.recv(100).decode().strip() == ANSWER


@pytest.mark.full
async def test_without_a_userland_proxy_published_ports_are_closed_to_other_jobs_too(tmp_path: Path) -> None:
    if reason := hostile_image():
        pytest.skip(reason)
    url, why_not = another_engine("--userland-proxy=false")
    if why_not:
        pytest.skip(why_not)
    make_image(url)
    world = HostileHarness(tmp_path)
    world.url = url
    try:
        backend = await world.start()
        (node,) = await backend.nodes()
        await backend.apply([a_launch(world, a_key(), f"{LISTENS} &\nwait", ports=(15000,))])
        await Watch(backend).until_running(a_key())
        call = calls(node.address, 15000)
        assert await world.run(until_heard(call), a_key(1)) == f"{ANSWER}\n"
        assert await world.run(f"{call}\nexit 0", other_job()) == ""
    finally:
        await world.destroy()


async def test_a_task_reaches_itself_by_the_address_it_is_given(world: HostileHarness) -> None:
    backend = await world.start()
    (node,) = await backend.nodes()
    itself = f"{LISTENS} &\n{until_heard(calls(node.address, 15000))}\nexit 0"
    assert await world.run(itself, ports=(15000,)) == f"{ANSWER}\n"


async def test_a_jobs_network_goes_with_its_last_task(world: HostileHarness) -> None:
    backend = await world.start()
    assert isinstance(backend, DockerBackend)
    for index in range(2):
        await world.run("exit 0", a_key(index))
    await world.run("exit 0", other_job())
    direct = Engine(world.url)
    try:
        assert len(await direct.networks(f"openpai.root={backend._scope}")) == 2
        await forget(backend, a_key(0), other_job())
        await world.stop()
        (left,) = await direct.networks(f"openpai.root={backend._scope}")
        assert left["Name"].endswith(a_key().job)
        # A server that was killed before it removed it leaves that to the next.
        backend = await world.start()
        await forget(backend, a_key(1))
        await world.stop()
        assert await direct.networks(f"openpai.root={backend._scope}") == []  # type: ignore[attr-defined]
    finally:
        await direct.close()


async def test_a_removed_network_is_created_again(world: HostileHarness) -> None:
    await world.run("exit 0", a_key(0))
    assert '"NetworksDeleted":["pai.' in ask(world.url, "POST", "/networks/prune")
    assert await world.run("echo ran", a_key(1)) == "ran\n"


async def test_a_port_that_the_engine_finds_taken_is_the_platforms_fault(world: HostileHarness) -> None:
    with a_service("0.0.0.0") as port:
        report = await ran(world, "exit 0", ports=(port,))
    assert report.reason is ExitReason.PORT_TAKEN, report


async def test_links_and_pipes_in_place_of_what_the_server_reads_lead_nowhere(
    world: HostileHarness, tmp_path: Path
) -> None:
    """Hold against a root who replaces everything in the directory and the logs of its task."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "secret").write_text("the secret of the machine")
    attacks = ("busybox ln -s {victim}/secret {name}", "busybox mkfifo {name}", "mkdir {name}")
    backend, launches = await world.start(), []
    for index, replace in enumerate(attacks):
        places = [f"{MOUNT}/{name}" for name in ("exit", "ticket", "task.json", "grace", "user.sh")]
        places += [f"{MOUNT}/logs/{name}.log" for name in ("stdout", "stderr", "runtime")]
        attack = "\n".join(f"busybox rm -rf {name}; {replace.format(victim=victim, name=name)}" for name in places)
        commands = f"set +e\n{attack}\nbusybox ln -s {victim} {MOUNT}/link\nexit 7"
        launches.append(a_launch(world, a_key(index), commands, grace_s=0.5))
    await backend.apply(launches)
    reports = await Watch(backend).until_over(*(launch.key for launch in launches))
    for launch, replace, report in zip(launches, attacks, reports, strict=True):
        key = launch.key
        assert report.code == 7, (replace, report)
        logs = FileLogs(world.logs, lambda _: True)
        try:
            for stream in ("stdout", "stderr", "runtime"):
                assert b"secret" not in (await logs.read(key, stream, 0, 1000)).data
        finally:
            await logs.close()
        await forget(backend, key)
    await world.stop()
    await world.start()
    assert (victim / "secret").read_text() == "the secret of the machine"
    assert list(victim.iterdir()) == [victim / "secret"]


async def test_a_task_cannot_have_the_machine_filled_with_proxies(world: HostileHarness) -> None:
    report = await ran(world, "exit 0", ports=tuple(range(15000, 16000)))
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert "at most 64" in report.message


@pytest.mark.parametrize("allowed", [False, True])
async def test_infiniband_is_the_administrators_to_give(allowed: bool, tmp_path: Path) -> None:
    async with a_world(tmp_path, infiniband=allowed) as world:
        backend = await world.start()
        await backend.apply([a_launch(world, a_key(), "exit 0", infiniband=True)])
        report: ExitReport
        (report,) = await Watch(backend).until_over(a_key())
    if allowed and Path("/dev/infiniband").exists():  # noqa: ASYNC240
        assert report.code == 0
    else:
        assert report.reason is ExitReason.LAUNCH_REFUSED
        assert ("has no devices" if allowed else "--allow-infiniband") in report.message
