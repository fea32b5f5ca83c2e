"""The table of permissions: who may do which action. Every route names its action; no other place decides.

`docs/permissions.md` is generated from it, and a test calls every route in every role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from openpai.access.model import Action, Role, Scope


def _open(name: str, message: str) -> Action:
    return Action(name, message, Role.GUEST, scope=Scope.READ)


def _look(name: str, message: str, **more: Any) -> Action:
    return Action(name, message, Role.VIEWER, scope=Scope.READ, **more)


def _self(name: str, message: str, **more: Any) -> Action:
    return Action(name, message, Role.VIEWER, in_person=True, **more)


def _job(name: str, message: str, **more: Any) -> Action:
    """Return an action on a job: for its owner, managers of its virtual cluster and administrators."""
    return Action(name, message, Role.ADMIN, is_open_to_owner=True, **({"scope": Scope.JOBS} | more))


def _admin(name: str, message: str, **more: Any) -> Action:
    return Action(name, message, Role.ADMIN, **more)


_ACTIONS: Final = (
    _open("info.read", "see the name and version of the platform and how to log in"),
    _open("health.read", "check whether the server is up"),
    _open("login", "log in"),
    _self("logout", "log out"),
    _look("token.check", "see the user and scope of one's own token"),
    _self("token.list", "see one's own tokens"),
    _self("token.create", "make a token for an application"),
    _self("token.revoke", "revoke one's own tokens"),
    _look("user.list", "see the names of users"),
    _look("user.read", "see a user's public name"),
    _admin("user.details", "see a user's groups and e-mail address", is_open_to_owner=True, scope=Scope.READ),
    _admin("user.change_own", "change the e-mail address, password and settings of a user",
           is_open_to_owner=True, in_person=True),
    _admin("user.add", "add users", in_person=True),
    _admin("user.change", "change users, their passwords and groups", in_person=True),
    _admin("user.remove", "remove users", in_person=True),
    _look("group.list", "see the groups"),
    _admin("user.tokens", "see the ids of a user's tokens", is_open_to_owner=True, in_person=True,
           scope=Scope.READ),
    _admin("user.sign_out", "end a user's logins and revoke tokens", is_open_to_owner=True, in_person=True),
    _admin("group.members", "see who is in a group", scope=Scope.READ),
    _admin("group.change", "add, change and remove groups", in_person=True),
    _look("vc.list", "see virtual clusters, their guarantees and their use"),
    _look("vc.inspect", "see the cells behind virtual clusters"),
    _admin("vc.change", "add, change and remove virtual clusters"),
    _admin("vc.preview", "see what a change of a virtual cluster would do", scope=Scope.READ),
    _admin("quota.list", "see all quotas", is_open_to_manager=True, scope=Scope.READ),
    _look("quota.own", "see the quotas that hold for oneself"),
    _admin("quota.change", "set quotas", is_open_to_manager=True),
    _look("budget.own", "see the budgets of oneself, one's groups and virtual clusters"),
    _admin("budget.list", "see all budgets", scope=Scope.READ, widens="budget.own"),
    _admin("budget.change", "set budgets"),
    _look("node.list", "see the nodes and their use"),
    _admin("node.change", "drain nodes and mark GPUs as bad"),
    _admin("cluster.read", "see the configuration of the cluster, its nodes and pods in full", scope=Scope.READ),
    _admin("cluster.change", "change the configuration of the cluster"),
    _look("exit_spec.list", "see the exit specs: causes of failures and the rules that find them"),
    _admin("exit_spec.test", "test exit specs against texts and past failures", scope=Scope.READ),
    _admin("exit_spec.change", "change, disable and revert exit specs"),
    _admin("scheduler.snapshot", "take a snapshot of the scheduler", scope=Scope.READ),
    _admin("scheduler.what_if", "replay the past with other promises", is_open_to_manager=True, scope=Scope.READ),
    _look("alert.list", "see the alerts about one's own jobs; administrators see all"),
    _admin("alert.rules", "see alert rules, their history, silences, channels, and what alerts did", scope=Scope.READ),
    _admin("alert.change", "change and revert alert rules"),
    _admin("alert.silence", "silence alerts"),
    _admin("alert.channels", "set, test and remove channels of messages", in_person=True),
    _self("alert.subscribe", "subscribe to one's own jobs"),
    _look("job.list", "see the list of jobs"),
    Action("job.submit", "submit jobs to one's virtual clusters", Role.USER, scope=Scope.JOBS),
    _job("job.read", "see a job's tasks, history and why it waits", is_open_to_manager=True, is_open_to_granted=True,
         scope=Scope.READ),
    _job("job.config", "read a job's file, secrets masked", is_open_to_manager=True, is_open_to_granted=True,
         scope=Scope.READ),
    _job("job.logs", "read a job's logs", is_open_to_manager=True, scope=Scope.READ),
    _job("job.ssh", "see how to reach a job's tasks by SSH", scope=Scope.READ),
    _job("job.exec", "run commands in a job's tasks, copy files, connect to their ports, and open its applications"),
    _job("job.stop", "stop, start or restart a job", is_open_to_manager=True),
    _job("job.tag", "tag a job", is_open_to_manager=True, reaches_archived=True),
    _job("job.priority", "change a job's priority class", is_open_to_manager=True),
    _job("job.scale", "change the number of a job's tasks"),
    Action("job.rank", "move a job in the queue", Role.ADMIN, is_open_to_manager=True, scope=Scope.JOBS),
    _job("job.checkpoint", "record that a job saved its work"),
    _job("job.archive", "archive a finished job, so that its name is free", reaches_archived=True),
    _job("job.delete", "delete a finished job with its logs", reaches_archived=True),
    _look("storage.list", "see one's storages"),
    Action("storage.read", "browse and download from a storage", Role.ADMIN, is_open_to_granted=True, scope=Scope.READ),
    Action("storage.write", "upload to a storage", Role.ADMIN, is_open_to_granted=True, scope=Scope.JOBS),
    _admin("storage.change", "add, change, test and remove storages"),
    _look("market.read", "see items of the marketplace: public ones, those shared with one, and one's own"),
    Action("market.rate", "give items of the marketplace stars", Role.USER, scope=Scope.JOBS),
    Action("market.publish", "publish items in the marketplace, and edit and remove one's own", Role.USER),
    _admin("market.approve", "approve and reject items of the marketplace, and set whether that is needed"),
    _look("report.own", "see one's own use"),
    _admin("report.read", "see the use of all users", is_open_to_manager=True, scope=Scope.READ, widens="report.own"),
    _admin("metrics.read", "see what is measured of the platform, its nodes and all jobs", scope=Scope.READ),
    _look("announcement.list", "see announcements"),
    _admin("announcement.change", "make and remove announcements"),
    _look("plugin_page.list", "see the plug-in pages of the portal"),
    _admin("settings.read", "see the settings of the server, without secrets", scope=Scope.READ),
    _look("audit.own", "see audit entries by oneself or about one's own resources"),
    _admin("audit.read", "see the whole audit log", scope=Scope.READ, widens="audit.own"),
)  # fmt: skip

ACTIONS: Final = {action.name: action for action in _ACTIONS}

OPEN: Final[Mapping[str, str]] = {
    "* /api/v1/": "info.read",
    "* /api/v2/": "info.read",
    "* /api/v2/info": "info.read",
    "GET /": "info.read",
    "GET /healthz": "health.read",
    "GET /readyz": "health.read",
    "GET /api/v1/authn/info": "info.read",
    "GET /api/v2/authn/info": "info.read",
    "POST /api/v1/authn/basic/login": "login",
    "POST /api/v2/authn/basic/login": "login",
    "POST /api/v2/authn/browser/login": "login",
    "POST /api/v1/token": "login",
    "POST /api/v2/tokens": "login",
    "GET /api/v1/authn/oidc/login": "login",
    "GET /api/v2/authn/oidc/login": "login",
    "GET /api/v1/authn/oidc/return": "login",
    "GET /api/v2/authn/oidc/return": "login",
    "POST /api/v1/authn/oidc/return": "login",
    "POST /api/v2/authn/oidc/return": "login",
    "POST /api/v2/authn/oidc/token": "login",
    "POST /api/v2/authn/oidc/browser": "login",
    "GET /api/v1/authn/oidc/logout": "login",
    "GET /api/v2/authn/oidc/logout": "login",
}
"""Routes that need no login, with their descriptions; every other route names its action."""


def open_action(method: str, path: str) -> str | None:
    """Return the description of an open route; None for a route that is not open."""
    return OPEN.get(f"{method} {path}") or OPEN.get(f"* {path}")
