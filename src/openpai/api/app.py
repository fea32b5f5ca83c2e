"""Assembly of the HTTP API: routes, the middleware around them, and one shape for every error."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.responses import Response

from openpai.api import bodies
from openpai.api.answers import refusal, reply
from openpai.api.audit import Auditing
from openpai.api.changes import ChangeFeed
from openpai.api.context import ApiContext
from openpai.api.forwarding import Forwarder
from openpai.api.gate import Gate
from openpai.api.log_tickets import Tickets
from openpai.api.openapi.writing import complete
from openpai.api.portal import PortalFiles, PortalPages
from openpai.api.rate_limits import LoginLimiter, RateLimiter, TooManyRequests
from openpai.api.route_index import RouteIndex
from openpai.api.services import Services
from openpai.api.sessions import Sessions
from openpai.api.shell_sessions import OpenSessions
from openpai.api.shell_sockets import add_sockets
from openpai.api.shell_tickets import ShellTickets
from openpai.identity.passwords import Passwords
from openpai.orchestrator.quotas import QuotaCache
from openpai.ports.platform import NotLeading
from openpai.protocol.errors import Broken, PaiError, Refused, Unavailable

# The files of `routes`. Their routes are tried in this order: the most frequent first.
_FILES: Final = (
    "jobs sweeps job_bulk job_changes job_attempts job_events tasks shells applications logs nodes virtual_clusters "
    "scheduler tokens authn oidc browser_sessions prometheus users user_fields ssh_keys groups storages storage_files "
    "code what_if quotas budgets exit_specs reports audit alert_rules alert_channels alerts metrics market settings "
    "announcements plugin_pages kubernetes info"
)
ROUTERS: Final = tuple(import_module(f"openpai.api.routes.{name}") for name in _FILES.split())
OPERATIONS: Final = {name: one for module in ROUTERS for name, one in module.router.operations.items()}
_TOO_FAST: Final = "this client sends too many requests"


def described_api(version: str) -> FastAPI:
    """Return the routes with their description; it serves no request until `create_api` adds what they need."""
    # Its pages come from this server, since many clusters have no Internet access.
    api = FastAPIOffline(
        # A router that is included looks for the route of each request twice, and three times as long.
        routes=[route for module in ROUTERS for route in module.router.routes],
        redoc_url=None,
        # `legacy_paths` removes a slash at the end; a redirect would go to any host that a client names.
        redirect_slashes=False,
        title="OpenPAI",
        version=version,
        description="The REST API of an open AI platform. Errors are `{code, message}`; times are in milliseconds.",
    )
    described = api.openapi

    def whole() -> dict[str, Any]:
        for module in ROUTERS:
            module.router.describe_bodies()
        return complete(described(), OPERATIONS)

    # FastAPI would complete the document again for every reader.
    api.openapi = cache(whole)  # type: ignore[method-assign]
    return api


def create_api(services: Services) -> FastAPI:
    """Return the HTTP API over `services`, in OpenPAI's shapes."""
    settings = services.settings
    api = described_api(settings.version)
    sessions = Sessions(services.users, services.clock, settings.token_cache_ms)
    context = api.state.context = ApiContext(
        services=services,
        sessions=sessions,
        tickets=Tickets(services.sealer, sessions, services.clock),
        passwords=Passwords(),
        lists=RateLimiter(settings.lists, services.clock, "too many requests for the list of jobs"),
        logins=LoginLimiter(
            services.clock,
            per_min=settings.login_failures_per_min,
            per_min_of_address=settings.login_failures_per_min_of_address,
            per_min_of_user=settings.login_failures_per_min_of_user,
        ),
        quotas=QuotaCache(services.usage, services.clock),
        shell_tickets=ShellTickets(sessions, services.clock),
        shells=OpenSessions(settings),
        changes=ChangeFeed(services.jobs),
    )
    add_sockets(api)
    api.router.middleware_stack = RouteIndex(api.router)
    api.state.forwarder = Forwarder(services.sealer)
    api.add_exception_handler(NotLeading, _passed_on)
    api.add_exception_handler(PaiError, _answer_error)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _no_api)
    api.add_middleware(Auditing, services=services)
    files = PortalFiles(services.portal, [page.origin for page in services.plugin_pages]) if services.portal else None
    if files is not None and files.is_built:
        api.add_middleware(PortalPages, files=files)
    api.add_middleware(
        Gate,
        sessions=context.sessions,
        sealer=services.sealer,
        requests=RateLimiter(settings.requests, services.clock, _TOO_FAST),
        body_max_bytes=settings.body_max_bytes,
        upload_max_bytes=settings.upload_max_bytes,
        times=context.times,
        logs_requests=settings.logs_requests,
    )
    return api


async def _passed_on(request: Request, error: Exception) -> Response:
    if not isinstance(error, NotLeading):
        raise error
    forwarder: Forwarder = request.app.state.forwarder
    try:
        return await forwarder.ask(request, error)
    except Unavailable as unavailable:
        return refusal(unavailable)


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, Broken) or not isinstance(error, PaiError):
        # The gate logs errors of the server with their traceback.
        raise error
    return refusal(error, error.headers() if isinstance(error, TooManyRequests) else None)


async def _invalid(request: Request, error: Exception) -> Response:
    faults = error.errors() if isinstance(error, RequestValidationError) else ()
    return refusal(bodies.invalid(bodies.describe(faults)))


async def _no_api(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        return refusal(Refused("NoApiError", f"there is no {request.url.path}", "see /docs for the API"))
    if status == 405:
        message = f"{request.url.path} does not take {request.method}"
        taken = {"Allow": ", ".join(_methods(request))}
        return refusal(Refused("MethodNotAllowedError", message, "see /docs for its methods"), taken)
    return reply({"code": "UnknownError", "message": str(error)}, status)


def _methods(request: Request) -> list[str]:
    """Return the methods that the path of a request takes."""
    fitting: dict[str, set[str]] = {}
    for module in ROUTERS:
        for route in module.router.routes:
            if isinstance(route, APIRoute) and route.path_regex.match(request.url.path):
                fitting.setdefault(route.path, set()).update(route.methods or ())
    # A literal path precedes a parameter, as /tokens/check precedes /tokens/{token}.
    return sorted(fitting[min(fitting, key=lambda path: path.count("{"))]) if fitting else []
