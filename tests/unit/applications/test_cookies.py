"""Cookies of applications keep apart from those of the platform and of each other."""

from __future__ import annotations

import pytest

from openpai.applications.cookies import Cookies

SHARED = Cookies("pai-app-1", "pa-1-")
OWN = Cookies("__Host-pai-app", is_secure=True)


@pytest.mark.parametrize(
    ("cookies", "given", "passed"),
    [
        (SHARED, "pai_session=a; pa-1-x=1; pa-2-x=2; pai-app-1=s; x=3; token=t", "x=1"),
        (SHARED, "pa-1-=1; pa-1-a b=1; pa-1-c=\x01", ""),
        (SHARED, "", ""),
        (OWN, "pai_session=a; x=1; __Host-pai-app=s; PAI_SESSION=b; pai-app=c; __Secure-pai-x=1", "x=1"),
    ],
)
def test_only_an_applications_own_cookies_reach_it(cookies: Cookies, given: str, passed: str) -> None:
    assert cookies.inwards([given]) == passed


@pytest.mark.parametrize(
    ("cookies", "given", "passed"),
    [
        (SHARED, "x=1; Path=/a; Domain=localhost; HttpOnly", "pa-1-x=1; Path=/a; HttpOnly"),
        (SHARED, "pai_session=1; Path=/api", "pa-1-pai_session=1; Path=/api"),
        (SHARED, "pai-app-2=1", "pa-1-pai-app-2=1"),
        (SHARED, "no cookie", None),
        (SHARED, "=1", None),
        (SHARED, "x=1\r\nSet-Cookie: y=2", None),
        (SHARED, "x=" + "1" * 5000, None),
        (OWN, "x=1; domain=.example.org; Secure", "x=1; Secure"),
        (OWN, "pai_session=1", None),
        (OWN, "__Host-pai-app=1", None),
        (OWN, "__host-pai-app=1", None),
        (OWN, "x=1; evil; Max-Age=5", "x=1; Max-Age=5"),
    ],
)
def test_an_application_sets_cookies_of_its_own_only(cookies: Cookies, given: str, passed: str | None) -> None:
    assert cookies.outwards(given) == passed


def test_a_session_that_is_there_twice_is_not_believed() -> None:
    assert SHARED.session_in(["a=1; pai-app-1=s"]) == "s"
    assert SHARED.session_in(["pai-app-1=s; pai-app-1=s"]) == "s"
    assert SHARED.session_in(["pai-app-1=s", "pai-app-1=t"]) == ""
    assert "; Secure" in OWN.session_cookie("s")
    assert "Domain" not in OWN.session_cookie("s")
