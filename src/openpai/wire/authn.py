"""Documents of logins."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired

from openpai.wire.answers import UserName
from openpai.wire.doc import Doc, Document

_SHOWN_ONCE: Final = "Zr0h8wq0mS6x2bJ1cQeU5n3vXyLkT9pAfGdHiOjMsWE"


class Login(Document):
    """A login and its token."""

    user: UserName
    token: Annotated[str, Doc("shown only now", example=_SHOWN_ONCE)]
    admin: Annotated[bool, Doc(example=False)]
    hasGitHubPAT: Annotated[bool, Doc(example=False)]


class LoginInfo(Document):
    """How people log in."""

    authn_type: Literal["basic", "OIDC"]
    loginURI: Annotated[str, Doc(example="/api/v1/authn/basic/login")]
    loginURIMethod: Literal["post", "get"]
    label: NotRequired[Annotated[str, Doc("name of the identity provider")]]
    passwordLoginURI: NotRequired[Annotated[str, Doc("path for logins with a password")]]
