"""Operations on logins, tokens, users and groups."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, people, tokens

_SHOWN_ONCE: Final = "Zr0h8wq0mS6x2bJ1cQeU5n3vXyLkT9pAfGdHiOjMsWE"
_DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


_U: Final = "/api/v2/users"
_G: Final = "/api/v2/groups"
_T: Final = "/api/v2/tokens"
_A: Final = "/api/v2/authn"
_LOGIN: Final = "IncorrectPasswordError ForbiddenUserError ConflictUserError"
_USER: Final = "NoUserError"
_GROUP: Final = "NoGroupError"
_CHANGE: Final = f"{_USER} {_GROUP} NoVirtualClusterError RemoveAdminError ConflictGroupError"
_ACLS: Final = "NoVirtualClusterError NoStorageError RemoveAdminError ReadOnlyGroupError"
_HE: Final = {"username": "ann", "password": "correct horse"}
_ALL: Final = {"email": "ann@example.org", "virtualCluster": ["vision"], "admin": False, "extension": {}}
_PROVIDER: Final = {"Location": "where to go on"}
_GRANTS: Final = {"acls": {"virtualClusters": ["vision"], "storageConfigs": ["datasets"]}}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_A}/info": Operation("getLoginInfo", "Show how to log in", tokens.LoginInfo),
    f"POST {_A}/basic/login": Operation("logIn", "Log in with a password", tokens.Login, _LOGIN, request=_HE),
    f"DELETE {_A}/basic/logout": Operation("logOut", "Log out", answers.Message),
    f"GET {_A}/oidc/login": Operation(
        "beginSignOn", "Log in on a provider's page", None, "NoApiError", headers=_PROVIDER
    ),
    f"GET {_A}/oidc/return": Operation(
        "endSignOn", "Come back from a provider's page", None, "NoApiError UnauthorizedUserError", headers=_PROVIDER
    ),
    f"POST {_A}/oidc/return": Operation(
        "passOnSignOn", "Come back by a form of a provider", None, "InvalidParametersError", headers=_PROVIDER
    ),
    f"POST {_A}/oidc/token": Operation(
        "redeemSignOn",
        "Turn a sign-on into a token",
        tokens.Login,
        "NoApiError UnauthorizedUserError",
        request={"code": "gAAAAABo", "verifier": "a-secret-of-this-browser"},
    ),
    f"GET {_A}/oidc/logout": Operation(
        "endProviderSession", "Log out at a provider", None, "NoApiError", headers=_PROVIDER
    ),
    f"POST {_T}": Operation("createToken", "Log in with a password", tokens.Login, _LOGIN, request=_HE),
    f"GET {_T}": Operation("listTokens", "List one's own tokens", tokens.TokenList),
    f"DELETE {_T}": Operation("revokeTokens", "Revoke one's own tokens", tokens.Revoked),
    f"POST {_T}/application": Operation(
        "createApplicationToken",
        "Make a token for an application",
        tokens.NewToken,
        request={"name": "ci", "scope": "jobs"},
    ),
    f"DELETE {_T}/{{token}}": Operation("revokeToken", "Revoke a token", answers.Message, "NoTokenError"),
    f"GET {_T}/check": Operation("checkToken", "Show what a token stands for", tokens.TokenInfo),
    f"GET {_U}": Operation("listUsers", "List users", list[people.User | people.PublicUser]),
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
    f"GET {_U}/me": Operation("getMe", "Show oneself", people.User),
    f"PUT {_U}/me": Operation(
        "changeMe",
        "Change oneself",
        answers.Message,
        request={"patch": True, "data": {"username": "ann", "email": "a@b.org"}},
    ),
    f"GET {_U}/{{username}}": Operation("getUser", "Show a user", people.User | people.PublicUser, _USER),
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
        "Keep something with a user",
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
    f"GET {_U}/{{username}}/tokens": Operation("listUserTokens", "List a user's tokens", tokens.TokenList, _USER),
    f"DELETE {_U}/{{username}}/tokens": Operation("revokeUserTokens", "Revoke a user's tokens", tokens.Revoked, _USER),
    f"GET {_G}": Operation("listGroups", "List groups", list[people.Group]),
    f"POST {_G}": Operation(
        "createGroup",
        "Add a group",
        answers.Message,
        f"{_ACLS} ConflictGroupError",
        request={"groupname": "team-vision", "extension": _GRANTS},
    ),
    f"PUT {_G}": Operation(
        "changeGroup",
        "Change a group",
        answers.Message,
        f"{_GROUP} {_ACLS}",
        request={"patch": True, "data": {"groupname": "team-vision", "extension": _GRANTS}},
    ),
    f"GET {_G}/{{groupname}}": Operation("getGroup", "Show a group", people.Group, _GROUP),
    f"DELETE {_G}/{{groupname}}": Operation(
        "deleteGroup", "Remove a group", answers.Message, f"{_GROUP} ReadOnlyGroupError RemoveAdminError"
    ),
    f"GET {_G}/{{groupname}}/userlist": Operation("listMembers", "List who is in a group", list[people.Member], _GROUP),
    f"PUT {_G}/{{groupname}}/extension": Operation(
        "setGroupExtension",
        "Change what a group grants",
        answers.Message,
        f"{_GROUP} {_ACLS}",
        request={"extension": _GRANTS},
    ),
    f"PUT {_G}/{{groupname}}/extension/{{path}}": Operation(
        "setGroupValue",
        "Change one thing a group grants",
        answers.Message,
        f"{_GROUP} {_ACLS}",
        request={"data": ["vision"]},
    ),
    f"PUT {_G}/{{groupname}}/description": Operation(
        "setGroupDescription",
        "Change what a group is for",
        answers.Message,
        _GROUP,
        request={"description": "pictures"},
    ),
    f"PUT {_G}/{{groupname}}/externalname": Operation(
        "setGroupExternalName",
        "Change what a provider calls a group",
        answers.Message,
        _GROUP,
        request={"externalName": "vision@example.org"},
    ),
}
