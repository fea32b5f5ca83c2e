"""Documents of logins and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NotRequired

from openpai.wire.answers import Ms, UserName
from openpai.wire.doc import Doc, Document

_SHOWN_ONCE: Final = "Zr0h8wq0mS6x2bJ1cQeU5n3vXyLkT9pAfGdHiOjMsWE"


_DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


Scope = Literal["all", "jobs", "read"]


class Token(Document):
    """One of a user's tokens."""

    id: Annotated[str, Doc("names the token; is no credential", example=_DIGEST)]
    name: Annotated[str, Doc(example="nightly")]
    application: Annotated[bool, Doc(example=True)]
    scope: Scope
    createdTime: Ms
    expirationTime: Annotated[int | None, Doc("milliseconds since 1970; null: never", example=None)]
    current: Annotated[bool, Doc("whether it is the token of this request", example=False)]


class TokenList(Document):
    """A user's tokens."""

    tokens: Annotated[Sequence[str], Doc("their ids", example=[_DIGEST])]
    details: Sequence[Token]


class NewToken(Document):
    """A token of an application."""

    token: Annotated[str, Doc("shown only now", example=_SHOWN_ONCE)]
    application: Literal[True]
    name: Annotated[str, Doc(example="nightly")]
    scope: Scope


class Revoked(Document):
    """Tokens that were revoked."""

    message: Annotated[str, Doc(example="revoke successfully")]
    revoked: Annotated[int, Doc("how many", example=2, minimum=0)]


class TokenInfo(Document):
    """The user and scope of a token; times are in seconds, as in a JWT."""

    username: UserName
    application: Annotated[bool, Doc(example=False)]
    jobSpecific: Literal[False]
    encodedFrameworkName: Literal[""]
    iat: Annotated[int, Doc(example=1_767_225_600)]
    exp: NotRequired[Annotated[int, Doc("missing if it never expires", example=1_767_312_000)]]
    admin: Annotated[bool, Doc(example=False)]
    scope: Scope


class Login(Document):
    """A login and its token."""

    user: UserName
    token: Annotated[str, Doc("shown only now", example=_SHOWN_ONCE)]
    admin: Annotated[bool, Doc(example=False)]
    hasGitHubPAT: Annotated[bool, Doc(example=False)]


class BrowserLogin(Document):
    """A login of a browser; its cookie is the other half of the session."""

    user: UserName
    pageKey: Annotated[str, Doc("the value of the header X-Pai-Page-Key of every request", example=_SHOWN_ONCE)]


class LoginInfo(Document):
    """How people log in."""

    authn_type: Literal["basic", "OIDC"]
    loginURI: Annotated[str, Doc(example="/api/v1/authn/basic/login")]
    loginURIMethod: Literal["post", "get"]
    label: NotRequired[Annotated[str, Doc("name of the identity provider")]]
    passwordLoginURI: NotRequired[Annotated[str, Doc("path for logins with a password")]]
