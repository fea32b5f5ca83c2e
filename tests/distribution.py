"""Which tests the processes of one run share out among themselves.

What starts an Engine, a node, a browser or another costly thing for a whole process is run by one process, because each
other one would start its own. Quick tests go by file, all others one by one, and those that take longest go first.
Every other process begins with what computes and leaves what waits to the rest: with all of them waiting at once for
servers, browsers and nodes, processors would be idle, for which all of them would compute at once later.
"""

from __future__ import annotations

import re
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = {
    "a node": re.compile(r"kubernetes on a node|tests/kube/test_node(_storages|_checkpoints)?\.py"),
    "a node with GPUs": re.compile(r"tests/kube/test_(task_)?devices\.py"),
    "an Engine": re.compile(r"tests/(contracts|integration|e2e)/.*docker"),
}
BY_FILE: Final = re.compile(
    r"tests/(unit|architecture|e2e/portal|e2e/applications|integration/test_(api|cli|oidc|ldap|storage_kinds|process_wrapper)"
    r"|e2e/cli/test_shells|e2e/test_(runtime_plugins|several_servers)|kube/test_(leadership|frameworks))"
)
LONGEST: Final = re.compile(
    r"test_schemathesis|kube/test_(cluster_commands|node_training|extender)|e2e/test_(monitoring|dashboards|prometheus)"
)
WAITING: Final = re.compile(r"tests/(e2e|kube)/|test_kill")
"""Tests of servers, browsers and clusters, which take seconds each and wait while others need the processors."""
COMPUTING: Final = re.compile(r"tests/(properties|simulation)/")
"""Tests that need a processor for seconds each."""
SHORT: Final = re.compile(r"tests/(unit|architecture)/")


def scope_of(nodeid: str) -> str:
    """Return the name of the tests that are run one after another by the process that runs this one."""
    for name, pattern in TOGETHER.items():
        if pattern.search(nodeid):
            return name
    return nodeid.partition("::")[0] if BY_FILE.match(nodeid) else nodeid


def turn_of(scope: str) -> int:
    """Return when the tests of a scope are shared out: the least first, and last what takes a moment each."""
    if scope in TOGETHER or LONGEST.search(scope):
        return 0
    if WAITING.search(scope):
        return 1
    return 2 if COMPUTING.search(scope) else 4 if SHORT.match(scope) else 3


def is_waiting(scope: str) -> bool:
    """Return whether the tests of a scope mostly wait for other processes."""
    return turn_of(scope) < 2


class Distribution(LoadScopeScheduling):
    """Gives each process whole groups of tests, long ones first."""

    _is_sorted = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Give the tests of a process that ended to others, without the one that ended it: it would end them, too."""
        units = self.assigned_work[node]
        running = next((nodeid for unit in units.values() for nodeid in unit if not unit[nodeid]), None)
        if running is not None:
            units[self._split_scope(running)][running] = True
        # A process that is given tests which are over waits for more, for ever.
        self.assigned_work[node] = {scope: unit for scope, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return running

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget groups of tests that are over: what is left of all of a process is counted after each test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]

    def _reschedule(self, node: Any) -> None:
        # One that has just been started in place of another has not collected its tests yet.
        if node in self.registered_collections:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        if not self._is_sorted:
            # They are in order of size, the largest first.
            for scope in sorted(self.workqueue, key=turn_of):
                self.workqueue.move_to_end(scope)
            self._is_sorted = True
        if self.nodes.index(node) % 2:
            computing = next((scope for scope in self.workqueue if not is_waiting(scope)), None)
            if computing is not None:
                self.workqueue.move_to_end(computing, last=False)
        super()._assign_work_unit(node)
