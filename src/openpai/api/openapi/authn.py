"""Operations on logins."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, authn

_A: Final = "/api/v2/authn"
_LOGIN: Final = "IncorrectPasswordError ForbiddenUserError ConflictUserError"
_HE: Final = {"username": "ann", "password": "correct horse"}
_PROVIDER: Final = {"Location": "the page to continue at"}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_A}/info": Operation("getLoginInfo", "Show how to log in", authn.LoginInfo),
    f"POST {_A}/basic/login": Operation("logIn", "Log in with a password", authn.Login, _LOGIN, request=_HE),
    f"DELETE {_A}/basic/logout": Operation("logOut", "Log out", answers.Message),
    f"GET {_A}/oidc/login": Operation(
        "beginSignOn", "Log in on a provider's page", None, "NoApiError", headers=_PROVIDER
    ),
    f"GET {_A}/oidc/return": Operation(
        "endSignOn", "Return from a provider's page", None, "NoApiError UnauthorizedUserError", headers=_PROVIDER
    ),
    f"POST {_A}/oidc/return": Operation(
        "passOnSignOn", "Return from a provider's page by a form", None, "InvalidParametersError", headers=_PROVIDER
    ),
    f"POST {_A}/oidc/token": Operation(
        "redeemSignOn",
        "Exchange the code of a sign-on for a token",
        authn.Login,
        "NoApiError UnauthorizedUserError",
        request={"code": "gAAAAABo", "verifier": "a-secret-of-this-browser"},
    ),
    f"GET {_A}/oidc/logout": Operation(
        "endProviderSession", "Log out at a provider", None, "NoApiError", headers=_PROVIDER
    ),
}
