"""Exit specs that several administrators change, on several servers, and what an upgrade leaves of their changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from openpai.diagnosis.exit_specs import bundled, describe
from openpai.ports.cluster_settings import EXIT_SPECS
from openpai.ports.platform import NotLeading
from openpai.ports.revisions import Edit, Origin, Revised
from openpai.protocol.errors import Refused
from tests.unit.orchestrator.servers import Servers, live

LICENCE = {
    "summary": "No licence.",
    "domain": "platform",
    "retry": "helps",
    "row": 237,
    "rules": [{"role": "root", "where": "line", "patterns": ["no seat left"], "samples": ["lic1: no seat left"]}],
}
NAME = "cuda_oom"


def edited(**more: Any) -> dict[str, Any]:
    return {**describe(bundled()[NAME]), **more}


def causes(servers: Servers) -> Mapping[str, object]:
    rules = servers.leader.edited_rules
    assert rules is not None
    return rules.causes


async def view(servers: Servers, name: str, place: str = "a") -> Revised[Any]:
    return next(each for each in await servers.servers[place].commands.exit_specs() if each.name == name)


@pytest.mark.slow
def test_two_administrators_who_change_the_same_one_learn_of_each_other() -> None:
    async def story(servers: Servers) -> None:
        began = (await view(servers, NAME)).revision
        first = Edit(edited(summary="Ann's words."), revision=began)
        second = Edit(edited(summary="Bob's words."), revision=began)
        change = servers.commands.change_exit_spec
        done = await asyncio.gather(change(NAME, first, "ann"), change(NAME, second, "bob"), return_exceptions=True)
        (refused,) = [one for one in done if isinstance(one, Refused)]
        assert refused.code == "ConflictSettingError"
        assert "changed exit spec 'cuda_oom' since you read it: it is at revision 1" in refused.message
        assert f"pai exit-spec show {NAME}" in refused.advice
        now = await view(servers, NAME)
        assert now.revision == 1
        # Another one is none of this one's business, and without a revision the last change holds.
        await change("licence", Edit(LICENCE, revision=0), "eve")
        await change(NAME, Edit(edited(summary="Both."), revision=now.revision), "bob")
        assert (await change(NAME, Edit(edited(summary="Mine.")), "ann")).content["summary"] == "Mine."

    live(story)


@pytest.mark.slow
def test_changes_of_different_ones_at_the_same_time_are_all_made() -> None:
    async def story(servers: Servers) -> None:
        names = [f"licence_{number}" for number in range(2)]
        lines = [f"{name} is missing" for name in names]
        rule = {"role": "root", "where": "line"}
        bodies = [{**LICENCE, "rules": [{**rule, "patterns": [line], "samples": [line]}]} for line in lines]
        changes = (
            servers.commands.change_exit_spec(name, Edit(body), name) for name, body in zip(names, bodies, strict=True)
        )
        await asyncio.gather(*changes)
        assert {each.name for each in await servers.commands.exit_specs() if each.origin is Origin.ADDED} == set(names)

    live(story)


@pytest.mark.slow
def test_every_server_shows_a_change_at_once_and_the_next_leader_uses_it() -> None:
    async def story(servers: Servers) -> None:
        other = await servers.start("b")
        with pytest.raises(NotLeading):
            await other.commands.change_exit_spec("licence", Edit(LICENCE), "ann")
        await servers.commands.change_exit_spec("licence", Edit(LICENCE, "new"), "ann")
        assert (await view(servers, "licence", "b")).changed_by == "ann"
        (change,) = await other.commands.exit_spec_history("licence")
        assert (change.by, change.reason) == ("ann", "new")
        await servers.servers.pop("a").die()

        async def leads() -> bool:
            return other.commands.leader is not None

        await servers.until(leads)
        await asyncio.sleep(60)
        assert "licence" in causes(servers)

    live(story)


@pytest.mark.slow
def test_an_upgrade_keeps_a_change_and_shows_that_the_bundled_one_is_newer() -> None:
    async def story(servers: Servers) -> None:
        await servers.commands.change_exit_spec(NAME, Edit(edited(summary="Ours.")), "ann")
        await servers.commands.change_exit_spec("licence", Edit(LICENCE), "ann")
        assert not (await view(servers, NAME)).is_outdated
        setting = await servers.settings.setting(EXIT_SPECS)
        assert setting is not None
        # What an older version wrote: another bundled one, and a field that this version refuses.
        older = {**setting.body, "based": {NAME: "of an older version"}}
        older["edits"] = {**older["edits"], "licence": {**LICENCE, "domain": "desk"}}
        await servers.settings.set_setting(EXIT_SPECS, older, by="ann", at_ms=0)
        await servers.restart()
        found = await view(servers, NAME)
        assert (found.origin, found.is_outdated, found.content["summary"]) == (Origin.CHANGED, True, "Ours.")
        assert found.bundled == describe(bundled()[NAME])
        assert causes(servers)[NAME].summary == "Ours."
        assert "domain" in (await view(servers, "licence")).problem
        assert "licence" not in causes(servers)
        # Changed once more, it is based on the bundled one of today.
        await servers.commands.change_exit_spec(NAME, Edit(edited(summary="Ours.")), "ann")
        assert not (await view(servers, NAME)).is_outdated

    live(story)
