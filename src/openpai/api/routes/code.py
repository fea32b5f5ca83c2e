"""The code that is sent along with jobs: which contents the server lacks, and the code itself as a stream."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Request
from pydantic import Field
from starlette.convertors import StringConvertor, register_url_convertor

from openpai.api.answers import Reply, reply
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.ports.code import CodeOwner, CodeStore
from openpai.protocol.code import DIGEST, HASHES_MAX
from openpai.protocol.errors import Refused
from openpai.wire.code import KeptCode, MissingCode

router = Router("code", written=201)
Sending = Annotated[Caller, needs("job.submit")]
Digest = Annotated[str, Path(pattern=DIGEST)]
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_HASH: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class _DigestConvertor(StringConvertor):
    """Matches what may be a digest, so `PUT /code/missing` is a wrong method (405) and not a wrong digest."""

    regex = "(?!missing$)[^/]+"


register_url_convertor("digest", _DigestConvertor())


class Asked(Body):
    """The contents that a client may have to send."""

    hashes: list[Annotated[str, Field(pattern=DIGEST)]] = Field(
        max_length=HASHES_MAX, description="SHA-256 of each content", examples=[[_HASH]]
    )


@router.serves("POST /api/v2/code/missing", "See which contents to send", "NoCodeError", takes=Asked, status=200)
async def missing_code(request: Request, caller: Sending) -> Reply[MissingCode]:
    """Return which contents of one's code the server lacks; it keeps the others for an hour at least."""
    body = await read_body(request, Asked)
    return reply(MissingCode(missing=await _store(request).missing(_owner(caller), body.hashes)))


@router.serves(
    "PUT /api/v2/code/{digest:digest}",
    "Send code",
    "NoCodeError",
    takes={"requestBody": {"required": True, "content": _BYTES}},
)
async def send_code(request: Request, caller: Sending, digest: Digest) -> Reply[KeptCode]:
    """Store code that jobs name as `extras.code`.

    The body is compressed with gzip: contents, each after a line with its SHA-256 and length. The first is the list of
    files, whose SHA-256 names the code; the others are those that the server lacks.
    """
    kept = await _store(request).add(_owner(caller), digest, request.stream())
    return reply(KeptCode(digest=kept.digest, files=kept.files, bytes=kept.bytes), 201)


def _store(request: Request) -> CodeStore:
    store = context_of(request).services.code
    if store is None:
        raise Refused("NoCodeError", "this server keeps no code", "send it through a storage")
    return store


def _owner(caller: Caller) -> CodeOwner:
    return CodeOwner(caller.user, caller.principal.since_ms)
