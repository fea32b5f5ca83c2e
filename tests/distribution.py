"""Which tests the processes of one run share out among themselves.

What starts an Engine, a node, a browser or another costly thing for a whole process is run by one process, because each
other one would start its own. Quick tests go by file, all others one by one, and those that take longest go first.
"""

from __future__ import annotations

import re
from typing import Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = {
    "a node": re.compile(r"kubernetes on a node|tests/kube/test_node(_storages)?\.py"),
    "a node with GPUs": re.compile(r"tests/kube/test_(task_)?devices\.py"),
    "an Engine": re.compile(r"tests/(contracts|integration|e2e)/.*docker"),
}
BY_FILE: Final = re.compile(
    r"tests/(unit|architecture|e2e/portal|integration/test_(api|cli|oidc|ldap|storage_kinds|process_wrapper)"
    r"|e2e/cli/test_shells|e2e/test_runtime_plugins|kube/test_leadership)"
)
LONG: Final = re.compile(
    r"tests/kube/test_(cluster_commands|polite|frameworks|extender|chart|cluster_up|watch)|test_kill|test_bench"
    r"|tests/properties|tests/simulation|schemathesis|e2e/"
)


def scope_of(nodeid: str) -> str:
    """Return the name of the tests that are run one after another by the process that runs this one."""
    for name, pattern in TOGETHER.items():
        if pattern.search(nodeid):
            return name
    return nodeid.partition("::")[0] if BY_FILE.match(nodeid) else nodeid


class Distribution(LoadScopeScheduling):
    """Gives each process whole groups of tests, long ones first."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def schedule(self) -> None:
        """Share out the tests; the first of them are those that end last."""
        is_first = self.collection is None
        super().schedule()
        if is_first:
            for scope in [scope for scope in reversed(self.workqueue) if LONG.search(scope)]:
                self.workqueue.move_to_end(scope, last=False)
