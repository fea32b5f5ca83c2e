"""The marketplace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, known, listed, nothing, query_of, whole


class MarketFilters(TypedDict, total=False):
    """Filters and order of items, with the API's names."""

    keyword: str
    kind: str
    category: str
    tag: str
    author: str
    status: str
    official: bool
    starred: bool
    order: str


def _path(name: str) -> str:
    return f"/market/items/{segment(name, 'an item')}"


class Market:
    """Job templates, data sets and models that users publish for each other."""

    @asks
    def market_items(
        self, /, *, limit: int = 50, offset: int = 0, **where: Unpack[MarketFilters]
    ) -> Call[model.MarketPage]:
        """Return one page of the items that the user sees. `where` takes the filters of `MarketFilters`."""
        known(where, MarketFilters, "items")
        params = {"limit": str(limit), "offset": str(offset), **query_of(**where)}
        return Call("GET", "/market/items", whole(model.MarketPage.read), params)

    @asks
    def market_categories(self) -> Call[tuple[model.MarketCategory, ...]]:
        """Return the categories of the items that the user sees, the largest first."""
        return Call("GET", "/market/categories", listed(model.MarketCategory.read))

    @asks
    def market_item(self, name: str) -> Call[model.MarketDetail]:
        """Return an item with its texts."""
        return Call("GET", _path(name), whole(model.MarketDetail.read))

    @asks
    def market_revisions(self, name: str) -> Call[tuple[model.MarketEdit, ...]]:
        """Return the edits of an item, the newest first; for its author and administrators."""
        return Call("GET", f"{_path(name)}/revisions", listed(model.MarketEdit.read))

    @asks
    def market_revision(self, name: str, revision: int) -> Call[model.MarketRevision]:
        """Return the content of one revision of an item; for its author and administrators."""
        return Call("GET", f"{_path(name)}/revisions/{revision}", whole(model.MarketRevision.read))

    @asks
    def publish_market_item(self, item: Mapping[str, Any]) -> Call[model.MarketDetail]:
        """Publish an item: `name`, `kind` and the other keys of the API."""
        return Call("POST", "/market/items", whole(model.MarketDetail.read), json=dict(item))

    @asks
    def edit_market_item(
        self, name: str, item: Mapping[str, Any], *, revision: int | None = None
    ) -> Call[model.MarketDetail]:
        """Replace the content of an item, if `revision` is still its newest one."""
        body = {**item, **given(revision=revision)}
        return Call("PUT", _path(name), whole(model.MarketDetail.read), json=body)

    @asks
    def remove_market_item(self, name: str) -> Call[None]:
        """Remove an item for good."""
        return Call("DELETE", _path(name), nothing)

    @asks
    def rate_market_item(self, name: str, *, is_given: bool = True) -> Call[model.MarketDetail]:
        """Give an item a star, or take it back."""
        return Call("PUT" if is_given else "DELETE", f"{_path(name)}/star", whole(model.MarketDetail.read))

    @asks
    def review_market_item(
        self, name: str, *, is_approved: bool, revision: int | None = None, reason: str = ""
    ) -> Call[model.MarketDetail]:
        """Approve or reject the newest revision of an item."""
        body = given(approved=is_approved, revision=revision, reason=reason)
        return Call("PUT", f"{_path(name)}/review", whole(model.MarketDetail.read), json=body)

    @asks
    def run_market_item(
        self,
        name: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        job_name: str = "",
        virtual_cluster: str = "",
        file: str = "",
        key: str | None = None,
    ) -> Call[model.MarketRun]:
        """Submit the job file of an item, or what the user made of it, with other parameters.

        `key` names the request, as in `submit`.
        """
        body = {
            "name": job_name, "virtualCluster": virtual_cluster, "parameters": dict(parameters or {}),
            "secrets": dict(secrets or {}), "file": file,
        }  # fmt: skip
        headers = {"Idempotency-Key": key or uuid4().hex}
        return Call(
            "POST", f"{_path(name)}/run", whole(model.MarketRun.read), json=body, headers=headers, is_repeatable=True
        )

    @asks
    def market_settings(self) -> Call[model.MarketSettings]:
        """Return the settings of the marketplace."""
        return Call("GET", "/market/settings", whole(model.MarketSettings.read))

    @asks
    def set_market_settings(self, *, needs_approval: bool) -> Call[model.MarketSettings]:
        """Set whether administrators approve items before others see them."""
        body = {"approval": needs_approval}
        return Call("PUT", "/market/settings", whole(model.MarketSettings.read), json=body)
