"""The marketplace: list, show, publish, edit, review and rate items, and submit jobs from them."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request
from pydantic import Field

from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about, entry_of_submission, is_written
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routes.jobs import IdempotencyKey, submitter_for
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import market as shapes
from openpai.market.items import Content, Kind, Reader, Visibility
from openpai.market.running import job_file
from openpai.ports.market import ItemEdit, ItemFilter, Market
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.job import MAX_JOB_BYTES
from openpai.wire import market as wire

router = Router("market")
_ITEMS: Final = "/api/v2/market/items"
_ITEM: Final = f"{_ITEMS}/{{item}}"
Name = Annotated[str, Path(max_length=64)]
Reading = Annotated[Caller, needs("market.read")]
Publishing = Annotated[Caller, needs("market.publish")]
Rating = Annotated[Caller, needs("market.rate")]
Approving = Annotated[Caller, needs("market.approve")]
_WORD: Final = r"^[^\x00]*$"
_Words = Annotated[list[Annotated[str, Field(max_length=64, pattern=_WORD)]] | None, Query(max_length=20)]


class ItemText(Body):
    """What an item says."""

    title: str
    summary: str = ""
    description: str = Field("", description="Markdown. HTML in it is shown as text, and pictures as links.")
    protocol: str = Field("", description="A job file; `******` stands for secrets that each user gives.")
    storage: str = Field("", description="The storage that has a data set or a model.")
    path: str = Field("", description="Its path in the storage.")
    address: str = Field("", description="Its URL, if it is in no storage.")
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    visibility: Visibility = Visibility.PUBLIC
    groups: tuple[str, ...] = Field((), description="Groups that it is shared with.")
    virtualClusters: tuple[str, ...] = Field((), description="Virtual clusters with whose users it is shared.")
    comment: str = Field("", max_length=1000, description="What the edit is for; kept in the history.")
    official: bool | None = Field(None, description="For administrators: whether only they change it.")

    def edit(self, revision: int | None = None) -> ItemEdit:
        """Return it as an edit."""
        content = Content(
            self.title, self.summary, self.description, self.protocol, self.storage, self.path, self.address,
            self.categories, self.tags, self.visibility, self.groups, self.virtualClusters,
        )  # fmt: skip
        return ItemEdit(content, self.comment, revision, self.official)


class NewItem(ItemText, example={"name": "imagenet", "kind": "dataset", "title": "ImageNet", "storage": "data"}):
    """A new item."""

    name: str
    kind: Kind
    author: str = Field("", max_length=128, description="For administrators: another user as its author.")


class ChangedItem(ItemText, example={"title": "ImageNet", "storage": "data", "path": "/imagenet", "revision": 1}):
    """The new content of an item, in whole."""

    revision: int | None = Field(None, ge=0, description="Refuse the edit if the newest revision is another one.")


class Review(Body, example={"approved": True, "revision": 1}):
    """What an administrator decides about an item."""

    approved: bool
    revision: int | None = Field(None, ge=0, description="Refuse it if the newest revision is another one.")
    reason: str = Field("", max_length=1000, description="Shown to the author.")


class Run(Body, example={"parameters": {"lr": 0.1}, "virtualCluster": "vision"}, is_required=False):
    """How a user runs an item."""

    name: str = Field("", max_length=255, description="Name of the job; by default that of the file and a suffix.")
    virtualCluster: str = Field("", max_length=64)
    parameters: dict[str, Any] = Field({}, description="Values in place of the defaults in the job file.")
    secrets: dict[str, str] = Field({}, description="Values for the secrets that the job file names.")
    file: str = Field("", max_length=MAX_JOB_BYTES, description="The job file as the user changed it.")


class ChangedSettings(Body, example={"approval": True}):
    """Settings of the marketplace."""

    approval: bool


def _market(request: Request) -> Market:
    return context_of(request).services.market


def _reader(caller: Caller) -> Reader:
    who = caller.principal
    return Reader(who.name, caller.is_admin, who.since_ms, who.groups, who.virtual_clusters)


@router.serves(f"GET {_ITEMS}", "List items of the marketplace")
async def list_market_items(
    request: Request,
    caller: Reading,
    keyword: Annotated[
        str, Query(max_length=200, pattern=_WORD, description="words in name, title, summary, tags or author")
    ] = "",
    kind: Annotated[
        list[Literal["template", "dataset", "model"]] | None, Query(max_length=3, description="only of these kinds")
    ] = None,
    category: Annotated[_Words, Query(description="only in all of these categories")] = None,
    tag: Annotated[_Words, Query(description="only with all of these tags")] = None,
    author: Annotated[str, Query(max_length=128, pattern=_WORD, description="only by this user")] = "",
    status: Annotated[
        Literal["", "approved", "pending", "rejected", "waiting"],
        Query(description="waiting: what administrators have yet to approve, edits included"),
    ] = "",
    official: Annotated[bool | None, Query(description="only official ones, or only others")] = None,
    starred: Annotated[bool, Query(description="only those that the caller gave a star")] = False,
    order: Annotated[Literal["stars", "uses", "newest", "name"], Query(description="what comes first")] = "stars",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Reply[wire.MarketPage]:
    """Return the items that the caller may see: public and approved ones, those shared with them, and their own."""
    where = ItemFilter(
        keyword, tuple(kind or ()), tuple(category or ()), tuple(tag or ()), author, status,
        official, starred, order, offset, limit,
    )  # fmt: skip
    page = await _market(request).items(_reader(caller), where)
    return reply({"total": page.total, "items": [shapes.item(each) for each in page.items]})


@router.serves("GET /api/v2/market/categories", "List categories of the marketplace")
async def list_market_categories(request: Request, caller: Reading) -> Reply[list[wire.MarketCategory]]:
    """Return the categories of the items that the caller may see, the largest first."""
    found = await _market(request).categories(_reader(caller))
    return reply([{"name": name, "items": number} for name, number in found.items()])


@router.serves("GET /api/v2/market/settings", "Show the settings of the marketplace")
async def get_market_settings(request: Request, caller: Reading) -> Reply[wire.MarketSettings]:
    """Return whether administrators approve items before others see them."""
    return reply({"approval": await _market(request).needs_approval()})


@router.serves(
    "PUT /api/v2/market/settings",
    "Change the settings of the marketplace",
    "ConflictSettingError",
    takes=ChangedSettings,
)
async def set_market_settings(request: Request, caller: Approving) -> Reply[wire.MarketSettings]:
    """Set whether administrators approve items before others see them; what is approved stays so."""
    body = await read_body(request, ChangedSettings)
    await _market(request).set_approval(is_asked=body.approval, by=caller.user)
    return reply({"approval": body.approval})


@router.serves(
    f"POST {_ITEMS}", "Publish an item", "ConflictMarketItemError InvalidProtocolError", status=201, takes=NewItem
)
async def publish_market_item(request: Request, caller: Publishing) -> Reply[wire.MarketDetail]:
    """Publish a job template, a data set or a model.

    Its job file is checked, and refused with the lines of secrets in it.
    """
    body = await read_body(request, NewItem)
    found = await _market(request).publish(_reader(caller), body.name, body.kind, body.edit(), body.author)
    about(request, target=body.name, owner=found.item.author)
    return reply(shapes.detail(found), 201)


@router.serves(f"GET {_ITEM}", "Show an item")
async def get_market_item(request: Request, caller: Reading, item: Name) -> Reply[wire.MarketDetail]:
    """Return an item with its description, its job file, and the parameters of that."""
    return reply(shapes.detail(await _market(request).item(_reader(caller), item)))


@router.serves(f"PUT {_ITEM}", "Edit an item", "ConflictMarketItemError InvalidProtocolError", takes=ChangedItem)
async def edit_market_item(request: Request, caller: Publishing, item: Name) -> Reply[wire.MarketDetail]:
    """Replace the content of an item. Where administrators approve items, others see the edit once it is approved."""
    body = await read_body(request, ChangedItem)
    about(request, target=item)
    return reply(shapes.detail(await _market(request).edit(_reader(caller), item, body.edit(body.revision))))


@router.serves(f"DELETE {_ITEM}", "Remove an item")
async def remove_market_item(request: Request, caller: Publishing, item: Name) -> Done:
    """Remove an item for good, with its revisions and stars; jobs that were submitted from it stay."""
    about(request, target=item)
    await _market(request).remove(_reader(caller), item)
    return done(f"item {item} is removed")


@router.serves(f"GET {_ITEM}/revisions", "List revisions of an item")
async def list_market_revisions(request: Request, caller: Reading, item: Name) -> Reply[list[wire.MarketEdit]]:
    """Return the newest revisions of an item: when, by which user and what for; for its author and administrators."""
    return reply(shapes.edits(await _market(request).revisions(_reader(caller), item)))


@router.serves(f"GET {_ITEM}/revisions/{{revision}}", "Show a revision of an item")
async def get_market_revision(
    request: Request, caller: Reading, item: Name, revision: Annotated[int, Path(ge=1, le=2**31 - 1)]
) -> Reply[wire.MarketRevision]:
    """Return the content of one revision of an item; for its author and administrators."""
    return reply(shapes.revision(await _market(request).revision(_reader(caller), item, revision)))


@router.serves(f"PUT {_ITEM}/star", "Give an item a star")
async def star_market_item(request: Request, caller: Rating, item: Name) -> Reply[wire.MarketDetail]:
    """Give an item the caller's star, of which each user has one for each item."""
    about(request, target=item)
    return reply(shapes.detail(await _market(request).rate(_reader(caller), item, is_given=True)))


@router.serves(f"DELETE {_ITEM}/star", "Take back the star of an item")
async def unstar_market_item(request: Request, caller: Rating, item: Name) -> Reply[wire.MarketDetail]:
    """Take the caller's star back."""
    about(request, target=item)
    return reply(shapes.detail(await _market(request).rate(_reader(caller), item, is_given=False)))


@router.serves(f"PUT {_ITEM}/review", "Approve or reject an item", "ConflictMarketItemError", takes=Review)
async def review_market_item(request: Request, caller: Approving, item: Name) -> Reply[wire.MarketDetail]:
    """Approve or reject the newest revision of an item; a rejected item is seen by its author only."""
    body = await read_body(request, Review)
    about(request, target=item)
    found = await _market(request).review(
        _reader(caller), item, body.revision, is_approved=body.approved, reason=body.reason
    )
    return reply(shapes.detail(found))


@router.serves(
    f"POST {_ITEM}/run",
    "Submit a job from an item",
    "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError ConflictJobError",
    status=202,
    takes=Run,
)
async def run_market_item(
    request: Request,
    caller: Annotated[Caller, needs("job.submit")],
    item: Name,
    idempotency_key: IdempotencyKey = "",
) -> Reply[wire.MarketRun]:
    """Submit the job file of an item with the caller's own parameters; the job's history says what it was made from."""
    body = await read_body(request, Run) if await request.body() else Run.model_validate({})
    context = context_of(request)
    found = (await _market(request).item(_reader(caller), item)).item
    if not found.content.protocol.strip() and not body.file:
        raise InvalidParameters(f"item {item} has no job file", f"use it in a job: `pai market show {item}`")
    content = body.file.encode()
    if not body.file or body.parameters or body.secrets or body.name or body.virtualCluster:
        content = job_file(
            body.file or found.content.protocol, name=body.name, suffix="" if body.file else _suffix(idempotency_key),
            virtual_cluster=body.virtualCluster, parameters=body.parameters, secrets=body.secrets,
        )  # fmt: skip
    by = replace(
        await submitter_for(request, caller),
        idempotency_key=idempotency_key,
        audit=entry_of_submission(request, caller, context.services.clock.now_ms()),
        made_from=found.name,
        item_revision=found.revision,
    )
    job = await context.services.platform.submit(by, content)
    is_written(request)
    await _market(request).used(found, caller.user, job.job)
    run = wire.MarketRun(
        item=found.name, revision=found.revision, user=job.user, name=job.name, id=job.job, warnings=job.warnings
    )
    return reply(run, 202)


def _suffix(idempotency_key: str) -> str:
    """Return what makes the name of a job unique; the same request again makes the same job, with the same name."""
    return "".join(filter(str.isalnum, idempotency_key))[-6:].lower() or secrets.token_hex(3)
