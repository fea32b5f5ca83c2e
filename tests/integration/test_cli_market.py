"""`pai market` in front of the real API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.api_world import job_file

FILE = job_file("train", more="parameters:\n  rate: 0.1\n")


def test_an_item_is_published_run_edited_and_removed(pai: Any, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(FILE)
    pai.ok("market", "publish", "train", "--file", str(file), "--title", "Train", "--category", "vision", user="ann")
    assert "Train" in pai.ok("market", "list", user="bob").out
    assert "rate=0.1" in pai.ok("market", "show", "train", user="bob").out
    assert pai.ok("market", "show", "train", "--file", user="bob").out == FILE
    done = pai.json("market", "run", "train", "--set", "rate=7", "--name", "mine", user="bob")
    assert (done["user"], done["name"], done["item"]) == ("bob", "mine", "train")
    assert "rate: 7" in pai.ok("job", "config", "mine", user="bob").out
    wrong = pai("market", "run", "train", "--set", "rat=7", user="bob")
    assert wrong.code == 2
    assert "did you mean 'rate'" in wrong.err
    assert pai("market", "edit", "train", "--title", "Mine", user="bob").code == 4
    assert "revision 2" in pai.ok("market", "edit", "train", "--summary", "better", user="ann").out
    assert "nothing is to be changed" in pai("market", "edit", "train", "--summary", "better", user="ann").err
    pai.ok("market", "edit", "train", "--to", "1", user="ann")
    assert "back to revision 1" in pai.ok("market", "history", "train", user="ann").out
    assert "1 star" in pai.ok("market", "rate", "train", user="bob").out
    pai.ok("market", "fork", "train", "mine", user="bob")
    assert pai.json("market", "show", "mine", user="bob")["visibility"] == "private"
    assert pai("market", "show", "mine", user="ann").code == 3
    pai.ok("market", "remove", "train", "--yes", user="ann")
    assert "No items" in pai.ok("market", "list", user="ann").out


def test_a_job_with_a_secret_becomes_an_item_that_asks_each_user_for_theirs(pai: Any, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    secret = FILE.replace('"true"', '"echo <% $secrets.token %>"') + "secrets: {token: very-secret-word}\n"
    file.write_text(secret)
    refused = pai("market", "publish", "train", "--file", str(file), user="ann")
    assert refused.code == 2
    assert "secrets.token" in refused.err
    pai.ok("job", "submit", str(file), user="ann")
    pai.ok("market", "publish", "train", "--job", "train", user="ann")
    assert "very-secret-word" not in pai.ok("market", "show", "train", "--file", user="bob").out
    run = ("market", "run", "train", "--name", "mine", "--secret-stdin")
    assert pai(*run, user="bob", stdin="\n").code == 2
    pai.ok(*run, user="bob", stdin="bobs-own\n")
    assert "bobs-own" not in pai.ok("job", "config", "mine", user="bob").out


def test_an_administrator_approves_and_rejects(pai: Any, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)
    assert "need an administrator's approval" in pai.ok("market", "settings", "--approval", "on").out
    pai.ok("market", "publish", "train", "--file", str(file), user="ann")
    assert "train" in pai.ok("market", "list", "--waiting").out
    pai.ok("market", "reject", "train", "--reason", "no")
    assert "rejected because" in pai.ok("market", "show", "train", user="ann").out
    assert pai("market", "approve", "train", user="ann").code == 4
    pai.ok("market", "approve", "train", "--revision", "1")
    assert "train" in pai.ok("market", "list", user="bob").out
    assert "no approval" in pai.ok("market", "settings", "--approval", "off").out


OPENPAI = [
    {
        "id": "0d1f", "name": "Couplet Training 对联", "author": "openpai", "type": "template", "source": "marketplace",
        "isPublic": True, "isPrivate": False, "groupList": [], "dataType": None, "dataUrl": None,
        "categories": ["official example"], "tags": ["nlp"], "summary": "train\na model", "description": "# Text",
        "protocol": FILE, "useNumber": 3, "starNumber": 2, "status": "approved",
    },
    {
        "id": "0d20", "name": "Couplet data", "author": "openpai", "type": "data", "isPublic": False,
        "isPrivate": False, "groupList": ["vision"], "dataType": "github", "dataUrl": "https://github.com/a/b",
        "categories": [], "tags": [], "summary": "", "description": "", "protocol": FILE,
    },
    {
        "id": "0d21", "name": "leaky", "type": "old", "isPublic": True, "protocol": FILE + "secrets: {a: b}\n",
    },
]  # fmt: skip


def test_files_of_openpai_are_imported_and_a_repetition_changes_nothing(pai: Any, tmp_path: Path) -> None:
    file = tmp_path / "items.json"
    file.write_text(json.dumps(OPENPAI))
    first = pai("market", "import", str(file), "--json", user="ann")
    assert first.code == 2
    results = {one["name"]: one["action"] for one in json.loads(first.out)["items"]}
    assert results == {"couplet-training": "published", "couplet-data": "published", "leaky": "refused"}
    assert "line 16" in str(json.loads(first.out)["items"][2]["reason"])
    again = json.loads(pai("market", "import", str(file), "--json", user="ann").out)["items"]
    assert [one["action"] for one in again] == ["unchanged", "unchanged", "refused"]
    others = json.loads(pai("market", "import", str(file), "--json", user="bob").out)["items"]
    assert [one["action"] for one in others] == ["unchanged", "refused", "refused"]
    data = pai.json("market", "show", "couplet-data", user="ann")
    assert (data["kind"], data["groups"], data["visibility"]) == ("dataset", ["vision"], "shared")


def test_what_is_exported_can_be_imported(pai: Any, tmp_path: Path) -> None:
    file = tmp_path / "hello.yaml"
    file.write_text(FILE)
    pai.ok("market", "import", str(file), user="ann")
    exported = tmp_path / "items.yaml"
    exported.write_text(pai("market", "export", user="ann").out)
    assert "unchanged" in pai.ok("market", "import", str(exported), user="ann").out
    pai.ok("market", "remove", "hello", "--yes", user="ann")
    pai.ok("market", "import", str(exported), user="ann")
    assert pai.ok("market", "show", "hello", "--file", user="bob").out == FILE
    broken = tmp_path / "broken.yaml"
    broken.write_text("[1, 2]")
    assert "holds no items" in pai("market", "import", str(broken), user="ann").err
