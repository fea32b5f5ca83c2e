"""Fixtures that several kinds of tests share: databases of both kinds; how much a run tries; its last lines."""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import os
import signal
import sys
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from _pytest.faulthandler import fault_handler_stderr_fd_key
from pytest_rerunfailures import suspended_finalizers

from openpai.store.database import Database
from openpai.store.opening import migrate

from .compiling import compile_share
from .distribution import TOGETHER, scope_of
from .examples import use_same_examples
from .fork_server import use_cheap_hashes
from .kube.node import RealNode, end_nodes, lasting, real_node, why_no_node
from .kube.platform_image import image_tree
from .kube.server import control_plane, shared, why_not
from .lacks import summary
from .newest import fill
from .postgres import Databases, fresh_database, postgres
from .shared_sql import share_sql

# Collection only adds objects, among which the collector would look for garbage again and again.
gc.disable()

# Where compiled modules may not be kept, each of the hundreds of processes that tests start would compile them again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Etcd, API servers, kubelets and Engines: with more memory for garbage and less to do at once they need a fifth less
# processor time, which is what tests wait for.
os.environ.setdefault("GOGC", "400")
os.environ.setdefault("GOMAXPROCS", "1")

# Where a shell started the tests in the background, or `nohup` did, what they start would ignore these signals.
for ignored, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, handler)

# With each request httpx looks for it in every directory of packages, which is a twentieth of a request to an API here.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

use_same_examples()

share_sql()

use_cheap_hashes()


# An unexpected error with all local variables takes seconds to print, in which a server under test does nothing else.
_plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _plain])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Share out among the processes of a run what all of them would compile."""
    worker = getattr(session.config, "workerinput", None)
    if worker:
        compile_share(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from what was imported for all tests: it would visit that again and again."""
    gc.collect()
    gc.freeze()
    # Python looks after each 700 new objects, which is an eighth of what many tests cost. What is left here is no more.
    gc.set_threshold(20_000, 20, 10)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share tests out so that what is costly to start is started once; with `--dist loadscope` only."""
    if config.getoption("dist") != "loadscope":
        return None
    from .distribution import Distribution

    return Distribution(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each process of the run whether it gets all tests of one node one after another."""
    node.workerinput["is_grouped"] = node.config.getoption("dist") == "loadscope"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test that runs once more new servers: on those of before, what it created would be there already."""
    if getattr(item, "execution_count", 1) > 1:
        state = item.session._setupstate
        state.stack.update(suspended_finalizers)
        suspended_finalizers.clear()
        state.teardown_exact(None)
    _allow_time(item)


def _allow_time(item: pytest.Item) -> None:
    """Let a test last as long as its own limit says: the time after which its process is ended is that of all tests."""
    mark = item.get_closest_marker("timeout")
    usual_s, end_s = (float(item.config.getini(name)) for name in ("timeout", "faulthandler_timeout"))
    if end_s and mark and mark.args and mark.args[0] > usual_s:
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(mark.args[0] + end_s - usual_s, file=stderr, exit=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """End a node with the last test on it: until the end of the run it would take a part of a processor."""
    yield
    is_grouped = getattr(item.config, "workerinput", {}).get("is_grouped")
    scope = scope_of(item.nodeid)
    if nextitem is None or (is_grouped and scope in TOGETHER and scope_of(nextitem.nodeid) != scope):
        end_nodes()


def pytest_sessionfinish() -> None:
    """End what a run that was stopped has left."""
    end_nodes()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Say before pytest's own last line why tests ran once more, and what was skipped for lack of what."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_sep("_", f"{report.nodeid} failed, and ran once more")
        terminalreporter.write_line(report.longreprtext)
    yield
    reasons = [
        skip.longrepr[2] for skip in terminalreporter.stats.get("skipped", []) if isinstance(skip.longrepr, tuple)
    ]
    if line := summary(reasons):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(autouse=True)
def _logging_stays_as_it_is() -> Iterator[None]:
    """Fail a test that leaves logging set up for the whole process: later, `capture_logs` would see nothing."""
    before = structlog.get_config()
    yield
    if structlog.get_config() != before:
        structlog.configure(**before)
        pytest.fail("this test left structlog configured for later tests: patch structlog.configure, or restore it")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server; its URL without a database."""
    with postgres(_place_of_run(tmp_path_factory) / "postgres") as url:
        yield url


@pytest.fixture(scope="session")
def newest_postgres(postgres_server: str) -> Iterator[Databases]:
    """Databases of the newest schema on the server."""
    with fresh_database(postgres_server, "newest") as url:
        database = Database(url)
        migrate(database)
        database.close()
        yield Databases(postgres_server, "newest")


def _place_of_run(factory: pytest.TempPathFactory) -> Path:
    """Return the directory that the processes of this run share, and no other run."""
    place = factory.getbasetemp()
    return (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "kube"


@pytest.fixture(scope="session")
def kube_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a real etcd and kube-apiserver, which all processes of this run share."""
    if reason := why_not():
        pytest.skip(reason)
    with shared(_place_of_run(tmp_path_factory), "api") as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def kube_full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of another one, with kube-controller-manager and kube-scheduler, and no nodes."""
    if reason := why_not("kube-controller-manager", "kube-scheduler"):
        pytest.skip(reason)
    with shared(_place_of_run(tmp_path_factory), "full") as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the real image, which all processes of this run share."""
    return image_tree(_place_of_run(tmp_path_factory))


@pytest.fixture
def kube_node() -> RealNode:
    """A real node with kubelet and containerd, of a Kubernetes of this process's own (`kube_node.plane`)."""
    if reason := why_no_node():
        pytest.skip(reason)
    return lasting(_node)


@contextmanager
def _node() -> Iterator[RealNode]:
    with control_plane(controllers=True) as plane, real_node(plane) as node:
        yield node


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """SQLite, then PostgreSQL."""
    return str(request.param)


@pytest.fixture
def empty_url(database_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without tables."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.db'}"
        return
    with fresh_database(request.getfixturevalue("postgres_server"), f"t{uuid.uuid4().hex[:12]}") as url:
        yield url


@pytest.fixture
def database_url(database_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the newest schema in which nothing happened yet."""
    if database_kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'test.db'}"
        database = Database(url, inline=True)
        fill(database)
        database.close()
        yield url
        return
    with request.getfixturevalue("newest_postgres").lent() as url:
        yield url
