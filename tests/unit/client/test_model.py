"""The client's model, which is written from the documents in `openpai.wire`."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.app.pages import client_model
from openpai.client import model
from openpai.client.reading import Answer

CLASSES = {
    name: kind
    for name, kind in vars(model).items()
    if isinstance(kind, type) and issubclass(kind, Answer) and kind is not Answer
}


def test_a_word_for_a_field_is_one_of_a_document_that_the_client_has():
    made = Path(model.__file__).read_text("utf-8")
    unused = {
        word
        for key, word in client_model.NAMES.items()
        if f"    {word} = field." not in made or f'"{key.rpartition(".")[2]}"' not in made
    }
    assert unused == set()


def test_a_document_may_lack_anything_but_what_makes_it_one():
    for kind in CLASSES.values():
        if kind.needed:
            with pytest.raises(KeyError):
                kind.read({})
        else:
            assert kind.__name__ in repr(kind.read({}))


def test_values_of_another_type_are_empty():
    node = model.NodeView.read({"gpus": 7, "cpus": {"total": "8"}, "badDevices": "all", "virtualClusters": None})
    assert (node.gpus.total, node.cpus.total, node.bad_devices, node.virtual_clusters) == (0, 0, (), ())
    assert model.Sweep.read({"jobs": {}, "maxRunning": True}).max_running is None
    assert model.JobDetail.read({"jobStatus": [], "taskRoles": {"w": {}}}).tasks == ()
    with pytest.raises(TypeError, match="is no object"):
        model.NodeView.read(["n1"])


def test_inner_documents_are_read_where_they_are():
    group = model.Group.read({"groupname": "g", "extension": {"acls": {"admin": True, "storageConfigs": ["s"]}}})
    assert (group.name, group.is_admin, group.storages, group.extension.keys()) == ("g", True, ("s",), {"acls"})
    held = model.Held.read({"jobs": [{"job": "ann~a"}], "others": {"gpus": 3}})
    assert ([one.job for one in held.jobs], held.other_gpus) == (["ann~a"], 3)
    assert not model.JobDetail.read({"jobStatus": {"appExitCause": None}}).cause


def test_a_value_is_frozen_equal_to_its_like_and_keeps_its_secret():
    document = {"user": "ann", "token": "secret", "hasGitHubPAT": False}
    found = model.Login.read({**document, "added": "later"})
    assert found == model.Login(user="ann", token="secret")
    assert found != model.Login(user="ann", token="other")
    assert found.document["added"] == "later"
    assert "secret" not in repr(found)
    with pytest.raises(AttributeError, match="read-only"):
        found.user = "bob"
    with pytest.raises(TypeError, match="no field 'usr'"):
        model.Login(usr="ann")
