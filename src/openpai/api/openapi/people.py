"""What is told of people: logging in and out, users, groups, and the tokens that stand for them."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from openpai.api.openapi.operations import Answer, GroupName, Message, Ms, Operation, StorageName, UserName, VcName

_SHOWN_ONCE: Final = "Zr0h8wq0mS6x2bJ1cQeU5n3vXyLkT9pAfGdHiOjMsWE"
_DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class SignedIn(Answer):
    """A login, and the token that stands for it."""

    user: UserName
    token: str = Field(description="shown this once", examples=[_SHOWN_ONCE])
    admin: bool = Field(examples=[False])
    hasGitHubPAT: bool = Field(examples=[False])


class HowToLogIn(Answer):
    """How people log in."""

    authn_type: Literal["basic", "OIDC"]
    loginURI: str = Field(examples=["/api/v1/authn/basic/login"])
    loginURIMethod: Literal["post", "get"]
    label: str = Field("", description="what the identity provider is called")
    passwordLoginURI: str = Field("", description="where a password is taken nevertheless")


class TokenView(Answer):
    """One of a user's tokens."""

    id: str = Field(description="names the token, and opens nothing", examples=[_DIGEST])
    name: str = Field(examples=["nightly"])
    application: bool = Field(examples=[True])
    scope: Literal["all", "jobs", "read"]
    createdTime: Ms
    expirationTime: int | None = Field(description="milliseconds since 1970; null: never", examples=[None])
    current: bool = Field(description="whether this request came with it", examples=[False])


class Tokens(Answer):
    """A user's tokens."""

    tokens: list[str] = Field(description="their ids", examples=[[_DIGEST]])
    details: list[TokenView]


class NewToken(Answer):
    """A token of an application."""

    token: str = Field(description="shown this once", examples=[_SHOWN_ONCE])
    application: Literal[True]
    name: str = Field(examples=["nightly"])
    scope: Literal["all", "jobs", "read"]


class Revoked(Answer):
    """Tokens that open nothing any more."""

    message: str = Field(examples=["revoke successfully"])
    revoked: int = Field(ge=0, description="how many", examples=[2])


class Checked(Answer):
    """What a token stands for; times in seconds, as in a JWT."""

    username: UserName
    application: bool = Field(examples=[False])
    jobSpecific: Literal[False]
    encodedFrameworkName: Literal[""]
    iat: int = Field(examples=[1_767_225_600])
    exp: int = Field(0, description="missing: never", examples=[1_767_312_000])
    admin: bool = Field(examples=[False])
    scope: Literal["all", "jobs", "read"]


class User(Answer):
    """A user in full."""

    username: UserName
    email: str = Field(examples=["ann@example.org"])
    grouplist: list[GroupName]
    extension: dict[str, Any] = Field(description="what clients keep with the user", examples=[{}])
    admin: bool = Field(examples=[False])
    viewer: bool = Field(examples=[False])
    virtualCluster: list[VcName]
    storageConfig: list[StorageName]
    source: str = Field(description="who vouches: local, oidc or ldap", examples=["local"])
    createdTime: Ms


class Stranger(Answer):
    """What everybody may know of a user."""

    username: UserName


class Member(Answer):
    """A member of a group."""

    username: UserName
    clusterAdmin: bool = Field(examples=[False])


class GrantedAcls(Answer):
    """What a group grants."""

    admin: bool = Field(examples=[False])
    virtualClusters: list[VcName]
    managedVirtualClusters: list[VcName]
    storageConfigs: list[StorageName]


class GroupExtension(Answer):
    """What a group grants, and what clients keep with it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    acls: GrantedAcls


class GroupView(Answer):
    """A group."""

    groupname: GroupName
    description: str = Field(examples=["people who look at pictures"])
    externalName: str = Field(description="what an identity provider calls it", examples=["vision@example.org"])
    extension: GroupExtension


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
    f"GET {_A}/info": Operation("getLoginInfo", "Tell how to log in", HowToLogIn),
    f"POST {_A}/basic/login": Operation("logIn", "Log in with a password", SignedIn, _LOGIN, request=_HE),
    f"DELETE {_A}/basic/logout": Operation("logOut", "Log out", Message),
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
        SignedIn,
        "NoApiError UnauthorizedUserError",
        request={"code": "gAAAAABo", "verifier": "a-secret-of-this-browser"},
    ),
    f"GET {_A}/oidc/logout": Operation(
        "endProviderSession", "Log out at a provider", None, "NoApiError", headers=_PROVIDER
    ),
    f"POST {_T}": Operation("createToken", "Log in with a password", SignedIn, _LOGIN, request=_HE),
    f"GET {_T}": Operation("listTokens", "List one's own tokens", Tokens),
    f"DELETE {_T}": Operation("revokeTokens", "Revoke one's own tokens", Revoked),
    f"POST {_T}/application": Operation(
        "createApplicationToken", "Make a token for an application", NewToken, request={"name": "ci", "scope": "jobs"}
    ),
    f"DELETE {_T}/{{token}}": Operation("revokeToken", "Revoke a token", Message, "NoTokenError"),
    f"GET {_T}/check": Operation("checkToken", "Tell what a token stands for", Checked),
    f"GET {_U}": Operation("listUsers", "List users", list[User | Stranger]),
    f"POST {_U}": Operation(
        "createUser", "Add a user", Message,
        f"{_GROUP} NoVirtualClusterError ConflictUserError ConflictGroupError", request=_HE,
    ),
    f"PUT {_U}": Operation(
        "changeUser", "Change a user", Message, _CHANGE,
        request={"patch": True, "data": {"username": "ann", "email": "ann@example.org"}},
    ),
    f"GET {_U}/me": Operation("getMe", "Show oneself", User),
    f"PUT {_U}/me": Operation(
        "changeMe", "Change oneself", Message, request={"patch": True, "data": {"username": "ann", "email": "a@b.org"}}
    ),
    f"GET {_U}/{{username}}": Operation("getUser", "Show a user", User | Stranger, _USER),
    f"DELETE {_U}/{{username}}": Operation("deleteUser", "Remove a user", Message, f"{_USER} RemoveAdminError"),
    f"PUT {_U}/{{username}}/grouplist": Operation(
        "setUserGroups", "Set a user's groups", Message, _CHANGE, request={"grouplist": ["team-vision"]}
    ),
    f"PUT {_U}/{{username}}/group": Operation(
        "joinGroup", "Put a user into a group", Message, _CHANGE, request={"groupname": "team-vision"}
    ),
    f"DELETE {_U}/{{username}}/group": Operation(
        "leaveGroup", "Take a user out of a group", Message, f"{_CHANGE} ReadOnlyGroupError",
        request={"groupname": "team-vision"},
    ),
    f"PUT {_U}/{{username}}/virtualcluster": Operation(
        "setUserVirtualClusters", "Set a user's virtual clusters", Message, _CHANGE,
        request={"virtualCluster": ["vision"]},
    ),
    f"PUT {_U}/{{username}}/admin": Operation(
        "setUserAdmin", "Make a user an administrator", Message, _CHANGE, request={"admin": True}
    ),
    f"PUT {_U}/{{username}}/extension": Operation(
        "setUserExtension", "Keep something with a user", Message, _USER, request={"extension": {"theme": "dark"}}
    ),
    f"PUT {_U}/{{username}}/email": Operation(
        "setUserEmail", "Change an e-mail address", Message, _USER, request={"email": "ann@example.org"}
    ),
    f"PUT {_U}/{{username}}/password": Operation(
        "setUserPassword", "Change a password", Message, _USER,
        request={"oldPassword": "correct horse", "newPassword": "battery staple"},
    ),
    f"GET {_U}/{{username}}/tokens": Operation("listUserTokens", "List a user's tokens", Tokens, _USER),
    f"DELETE {_U}/{{username}}/tokens": Operation("revokeUserTokens", "Revoke a user's tokens", Revoked, _USER),
    f"GET {_G}": Operation("listGroups", "List groups", list[GroupView]),
    f"POST {_G}": Operation(
        "createGroup", "Add a group", Message, f"{_ACLS} ConflictGroupError",
        request={"groupname": "team-vision", "extension": _GRANTS},
    ),
    f"PUT {_G}": Operation(
        "changeGroup", "Change a group", Message, f"{_GROUP} {_ACLS}",
        request={"patch": True, "data": {"groupname": "team-vision", "extension": _GRANTS}},
    ),
    f"GET {_G}/{{groupname}}": Operation("getGroup", "Show a group", GroupView, _GROUP),
    f"DELETE {_G}/{{groupname}}": Operation(
        "deleteGroup", "Remove a group", Message, f"{_GROUP} ReadOnlyGroupError RemoveAdminError"
    ),
    f"GET {_G}/{{groupname}}/userlist": Operation("listMembers", "List who is in a group", list[Member], _GROUP),
    f"PUT {_G}/{{groupname}}/extension": Operation(
        "setGroupExtension", "Change what a group grants", Message, f"{_GROUP} {_ACLS}", request={"extension": _GRANTS}
    ),
    f"PUT {_G}/{{groupname}}/extension/{{path}}": Operation(
        "setGroupValue", "Change one thing a group grants", Message, f"{_GROUP} {_ACLS}", request={"data": ["vision"]}
    ),
    f"PUT {_G}/{{groupname}}/description": Operation(
        "setGroupDescription", "Change what a group is for", Message, _GROUP, request={"description": "pictures"}
    ),
    f"PUT {_G}/{{groupname}}/externalname": Operation(
        "setGroupExternalName", "Change what a provider calls a group", Message, _GROUP,
        request={"externalName": "vision@example.org"},
    ),
}  # fmt: skip
