"""Code over REST: sent in parts, named by a job, and hidden from other users."""

from __future__ import annotations

import gzip
import hashlib

import httpx

from openpai.protocol.code import CodeEntry, digest_of, write_list
from tests.integration.api_world import World, job_file

CONTENT = b"print(1)\n"
HASH = hashlib.sha256(CONTENT).hexdigest()
LIST = write_list([CodeEntry("train.py", HASH, len(CONTENT))])


def body(*contents: bytes) -> bytes:
    return gzip.compress(b"".join(f"{hashlib.sha256(one).hexdigest()} {len(one)}\n".encode() + one for one in contents))


async def test_code_is_sent_and_named_by_a_job(world: World) -> None:
    ann, bob = await world.login("ann"), await world.login("bob")
    asked = await world.http.post("/api/v2/code/missing", headers=ann, json={"hashes": [HASH]})
    assert asked.json() == {"missing": [HASH]}
    digest = digest_of(LIST)
    text = job_file("train").replace("extras:", f"extras:\n  code: {digest}")
    text = text if "code:" in text else f"{text}\nextras: {{code: {digest}}}\n"
    early = await world.http.post("/api/v2/jobs", headers=ann, content=text)
    assert (early.status_code, early.json()["code"]) == (404, "NoCodeError")
    sent = await world.http.put(f"/api/v2/code/{digest}", headers=ann, content=body(LIST, CONTENT))
    assert (sent.status_code, sent.json()) == (201, {"digest": digest, "files": 1, "bytes": len(CONTENT)})
    assert (await world.http.post("/api/v2/jobs", headers=ann, content=text)).status_code == 202
    assert (await world.http.post("/api/v2/code/missing", headers=ann, json={"hashes": [HASH]})).json() == {
        "missing": []
    }
    # To another user the code does not exist.
    assert (await world.http.post("/api/v2/jobs", headers=bob, content=text)).status_code == 404
    missing = await world.http.post("/api/v2/code/missing", headers=bob, json={"hashes": [HASH]})
    assert missing.json() == {"missing": [HASH]}


async def test_a_name_that_leads_out_is_refused(world: World) -> None:
    ann = await world.login("ann")
    evil = write_list([CodeEntry("../evil", HASH, len(CONTENT))])
    sent = await world.http.put(f"/api/v2/code/{digest_of(evil)}", headers=ann, content=body(evil, CONTENT))
    assert sent.status_code == 400
    assert "../evil has '..' in its path" in sent.json()["message"]


async def test_the_address_that_lists_missing_code_takes_no_code(world: World) -> None:
    ann = await world.login("ann")
    # The client of the world holds answers against the description, whose `{digest}` also matches this address.
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.api), base_url="http://test") as http:
        sent = await http.put("/api/v2/code/missing", headers=ann, content=body(LIST, CONTENT))
    assert (sent.status_code, sent.headers["allow"]) == (405, "POST")
    assert (await world.http.put("/api/v2/code/none", headers=ann, content=body(LIST, CONTENT))).status_code == 400
