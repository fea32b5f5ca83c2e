"""Operations on users."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, users

_U: Final = "/api/v2/users"
_USER: Final = "NoUserError"
_GROUP: Final = "NoGroupError"
_CHANGE: Final = f"{_USER} {_GROUP} NoVirtualClusterError RemoveAdminError ConflictGroupError"
_HE: Final = {"username": "ann", "password": "correct horse"}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_U}": Operation("listUsers", "List users", list[users.User | users.PublicUser]),
    f"POST {_U}": Operation(
        "createUser",
        "Add a user",
        answers.Message,
        f"{_GROUP} NoVirtualClusterError ConflictUserError ConflictGroupError",
        request=_HE,
    ),
    f"PUT {_U}": Operation(
        "changeUser",
        "Change a user",
        answers.Message,
        _CHANGE,
        request={"patch": True, "data": {"username": "ann", "email": "ann@example.org"}},
    ),
    f"GET {_U}/me": Operation("getMe", "Show one's own account", users.User),
    f"PUT {_U}/me": Operation(
        "changeMe",
        "Change one's own account",
        answers.Message,
        request={"patch": True, "data": {"username": "ann", "email": "a@b.org"}},
    ),
    f"GET {_U}/{{username}}": Operation("getUser", "Show a user", users.User | users.PublicUser, _USER),
    f"DELETE {_U}/{{username}}": Operation("deleteUser", "Remove a user", answers.Message, f"{_USER} RemoveAdminError"),
    f"PUT {_U}/{{username}}/grouplist": Operation(
        "setUserGroups", "Set a user's groups", answers.Message, _CHANGE, request={"grouplist": ["team-vision"]}
    ),
    f"PUT {_U}/{{username}}/group": Operation(
        "joinGroup", "Put a user into a group", answers.Message, _CHANGE, request={"groupname": "team-vision"}
    ),
    f"DELETE {_U}/{{username}}/group": Operation(
        "leaveGroup",
        "Take a user out of a group",
        answers.Message,
        f"{_CHANGE} ReadOnlyGroupError",
        request={"groupname": "team-vision"},
    ),
    f"PUT {_U}/{{username}}/virtualcluster": Operation(
        "setUserVirtualClusters",
        "Set a user's virtual clusters",
        answers.Message,
        _CHANGE,
        request={"virtualCluster": ["vision"]},
    ),
    f"PUT {_U}/{{username}}/admin": Operation(
        "setUserAdmin", "Make a user an administrator", answers.Message, _CHANGE, request={"admin": True}
    ),
    f"PUT {_U}/{{username}}/extension": Operation(
        "setUserExtension",
        "Change values that clients store with a user",
        answers.Message,
        _USER,
        request={"extension": {"theme": "dark"}},
    ),
    f"PUT {_U}/{{username}}/email": Operation(
        "setUserEmail", "Change an e-mail address", answers.Message, _USER, request={"email": "ann@example.org"}
    ),
    f"PUT {_U}/{{username}}/password": Operation(
        "setUserPassword",
        "Change a password",
        answers.Message,
        _USER,
        request={"oldPassword": "correct horse", "newPassword": "battery staple"},
    ),
}
