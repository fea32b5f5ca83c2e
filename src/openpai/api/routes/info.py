"""The name and version of this server, a page for people, and whether the server is alive and the platform ready."""

from __future__ import annotations

from html import escape
from typing import Final

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from openpai.api.answers import Reply, refusal, reply, text
from openpai.api.context import context_of
from openpai.api.routing import Router
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import failures
from openpai.wire.info import Health, Readiness, ServerInfo

router = Router("info")
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>OpenPAI</title></head>
<body>
<h1>OpenPAI {version}</h1>
<p>This server shares a cluster of GPUs among teams. To use it, install its command line, with
<code>pip install .</code> in a copy of its repository, and log in:</p>
<pre>pai login --url {url}
pai job submit FILE --watch</pre>
<ul>
<li><a href="/docs">The REST API</a>, and <a href="/openapi.json">its description for programs</a></li>
<li><a href="/readyz">Whether the platform is ready</a></li>
</ul>
</body>
</html>
"""
_OTHERS: Final = ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


@router.serves("GET /", "Show a page for people", media={"text/html": "<!doctype html>"})
async def get_page(request: Request) -> Response:
    """Return a page that introduces this server and links to its documentation."""
    url = escape(str(request.base_url).rstrip("/"))
    text = _PAGE.format(version=escape(context_of(request).services.settings.version), url=url)
    return HTMLResponse(text)


@router.serves("GET /api/v2/info", "Show what this server is")
@router.serves("GET /api/v1/", "Show what this server is", id_="getRoot")
async def get_info(request: Request) -> Reply[ServerInfo]:
    """Return the name and version of this server and how to log in."""
    services = context_of(request).services
    has_page = services.sign_on is not None and services.sign_on.sso is not None
    return reply(
        ServerInfo(
            name="PAI RESTful API",
            version=services.settings.version,
            # OpenPAI's clients know the protocols of `yarn` and `k8s`; this server has the latter.
            launcherType="k8s",
            authnMethod="OIDC" if has_page else "basic",
        )
    )


@router.serves(
    "GET /api/v2/", "Show a line for people", media={"text/plain": "OpenPAI 0.2.0: the API is described at /docs\n"}
)
async def get_banner(request: Request) -> Response:
    """Return one line of text for people."""
    return text(f"OpenPAI {context_of(request).services.settings.version}: the API is described at /docs\n")


# OpenPAI answers these for any method.
for _path, _answer in (("/api/v1/", get_info), ("/api/v2/info", get_info), ("/api/v2/", get_banner)):
    router.add_api_route(_path, _answer, methods=_OTHERS, include_in_schema=False, response_model=None)


@router.serves("GET /healthz", "Show that this server is alive")
async def get_health(request: Request) -> Reply[Health]:
    """Return 200 while this server is alive. `GET /readyz` reports whether the rest of the platform is ready.

    `loopFailures` counts the errors that background work of this server has met and survived; its log has them."""
    leads = context_of(request).services.leads()
    return reply(Health(status="ok", leads=leads, loopFailures=sum(failures().values())))


@router.serves("GET /readyz", "Show whether jobs can be submitted and run")
async def get_readiness(request: Request) -> Reply[Readiness] | Response:
    """Return 200 when jobs can be submitted and run, else 503 with what is wrong with each part in `message`.

    The parts are the `server`, its `database`, which must take writes and have this version's tables, the `disk`,
    the `leader` that runs the jobs, and the `backend` of the server that leads.
    """
    services = context_of(request).services
    checks = {
        "server": "" if services.is_ready() else "the server is starting or stopping",
        **await services.readiness(),
    }
    if not checks.get("database"):
        try:
            await services.check_database()
        except Unavailable as error:
            checks["database"] = error.message
    missing = [f"{part}: {wrong}" for part, wrong in checks.items() if wrong]
    if missing:
        return refusal(Unavailable("; ".join(missing), "an administrator has to repair the named parts"))
    return reply(Readiness(status="ready", checks=dict.fromkeys(checks, "ok")))
