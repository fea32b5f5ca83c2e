"""Operations on tokens."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, authn, tokens

_U: Final = "/api/v2/users"
_T: Final = "/api/v2/tokens"
_LOGIN: Final = "IncorrectPasswordError ForbiddenUserError ConflictUserError"
_USER: Final = "NoUserError"
_HE: Final = {"username": "ann", "password": "correct horse"}
OPERATIONS: Final[dict[str, Operation]] = {
    f"POST {_T}": Operation("createToken", "Log in with a password", authn.Login, _LOGIN, request=_HE),
    f"GET {_T}": Operation("listTokens", "List one's own tokens", tokens.TokenList),
    f"DELETE {_T}": Operation("revokeTokens", "Revoke one's own tokens", tokens.Revoked),
    f"POST {_T}/application": Operation(
        "createApplicationToken",
        "Create a token for an application",
        tokens.NewToken,
        request={"name": "ci", "scope": "jobs"},
    ),
    f"DELETE {_T}/{{token}}": Operation("revokeToken", "Revoke a token", answers.Message, "NoTokenError"),
    f"GET {_T}/check": Operation("checkToken", "Show the user and scope of a token", tokens.TokenInfo),
    f"GET {_U}/{{username}}/tokens": Operation("listUserTokens", "List a user's tokens", tokens.TokenList, _USER),
    f"DELETE {_U}/{{username}}/tokens": Operation("revokeUserTokens", "Revoke a user's tokens", tokens.Revoked, _USER),
}
