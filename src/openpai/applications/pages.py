"""What the platform itself answers on the origin of an application: one clear page, or JSON for programs."""

from __future__ import annotations

from html import escape
from typing import Final

from starlette.responses import JSONResponse, Response

from openpai.protocol.errors import PaiError

RELOAD_S: Final = 3
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{more}
<title>{title}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem;
color-scheme:light dark}}
h1{{font-size:1.3rem}}code{{background:#8883;padding:.1em .3em;border-radius:3px}}</style></head>
<body><h1>{title}</h1><p>{message}</p>{advice}</body></html>
"""


def page(status: int, title: str, error: PaiError, *, is_html: bool, reloads: bool = False) -> Response:
    """Return an answer of the platform; with `reloads`, a browser asks again in some seconds."""
    headers = {**_HEADERS, **({"retry-after": str(RELOAD_S)} if status == 503 else {})}
    if not is_html:
        return JSONResponse(error.as_dict(), status, headers)
    advice = "".join(f"<p>{_marked(line)}</p>" for line in error.advice.split("\n") if line)
    more = f'<meta http-equiv="refresh" content="{RELOAD_S}">' if reloads else ""
    text = _PAGE.format(title=escape(title), message=escape(error.message), advice=advice, more=more)
    return Response(text, status, headers, "text/html; charset=utf-8")


def _marked(line: str) -> str:
    """Return a line with what stands between ` as code."""
    parts = escape(line).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
