"""Every job can be written and read back unchanged, and the reader answers every input."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openpai.protocol.documents import document_of
from openpai.protocol.errors import Fault, InvalidProtocol
from openpai.protocol.job import Auth, Completion, Deployment, JobSpec, Prerequisite, Resources, RoleCommands, TaskRole
from openpai.protocol.parsing import parse
from openpai.protocol.reading import read_job
from openpai.protocol.templates import render_value
from openpai.protocol.writing import dump_spec, load_spec
from tests.unit.protocol.test_writing import to_yaml

# NUL and lone surrogates cannot be in a file; other control characters are written escaped.
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
SOME_TEXT = TEXT.filter(lambda text: text != "" and text != "******")
WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
COUNTS = st.integers(1, 2**31 - 1)
MINIMA = st.one_of(st.just(-1), st.integers(1, 30))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | SOME_TEXT | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
MAPPINGS = st.dictionaries(TEXT, VALUES, max_size=3).filter(lambda one: "******" not in one.values())
OPTIONAL = st.none() | SOME_TEXT
IMAGES = st.from_regex(r"[a-z0-9/.:@-]{1,20}", fullmatch=True)
KNOWN = {"type", "name", "uri", "auth", "plugin", "require", "version", "contributor", "description", "protocolVersion"}


@st.composite
def prerequisites(draw: st.DrawFn, type_: str, name: str) -> Prerequisite:
    about = {key: draw(OPTIONAL) for key in ("version", "contributor", "description")}
    if type_ == "dockerimage":
        auth = draw(st.none() | st.builds(Auth, SOME_TEXT, SOME_TEXT, TEXT))
        return Prerequisite(type_, name, (draw(IMAGES),), auth, **about)
    uri = tuple(draw(st.lists(TEXT, max_size=2))) if type_ == "data" else tuple(draw(st.lists(SOME_TEXT, max_size=1)))
    extra = {key: value for key, value in draw(MAPPINGS).items() if key not in KNOWN}
    return Prerequisite(type_, name, uri, None, draw(OPTIONAL), (name,), **about, extra=extra)


@st.composite
def roles(draw: st.DrawFn, name: str, images: list[str], parts: dict[str, list[str]]) -> TaskRole:
    chosen = {type_: draw(st.none() | st.sampled_from(parts[type_])) if parts[type_] else None for type_ in parts}
    return TaskRole(
        name=name,
        docker_image=draw(st.sampled_from(images)),
        resources=Resources(
            draw(st.integers(1, 100_000)),
            draw(COUNTS),
            draw(st.integers(0, 100_000)),
            draw(st.dictionaries(WORDS, st.integers(1, 1000), max_size=2)),
        ),
        commands=tuple(draw(st.lists(TEXT, min_size=1, max_size=3))),
        instances=draw(st.integers(1, 30)),
        completion=Completion(draw(MINIMA), draw(MINIMA)),
        task_retry_count=draw(st.integers(0, 2**31 - 1)),
        prerequisites=tuple(draw(st.lists(st.sampled_from(images), max_size=2))),
        shm_mb=draw(COUNTS),
        infiniband=draw(st.booleans()),
        **chosen,
    )


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    named = {
        type_: draw(st.lists(SOME_TEXT, min_size=least, max_size=2, unique=True))
        for type_, least in (("dockerimage", 1), ("data", 0), ("script", 0), ("output", 0))
    }
    role_names = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
    around = st.builds(RoleCommands, st.tuples(TEXT), st.tuples(TEXT, TEXT) | st.just(()))
    deployments = [
        Deployment(name, {role: draw(around) for role in role_names})
        for name in draw(st.lists(SOME_TEXT, max_size=2, unique=True))
    ]
    parts = {type_: names for type_, names in named.items() if type_ != "dockerimage"}
    return JobSpec(
        name=draw(NAMES),
        task_roles=tuple(draw(roles(name, named["dockerimage"], parts)) for name in role_names),
        prerequisites=tuple(draw(prerequisites(type_, name)) for type_, names in named.items() for name in names),
        parameters=draw(MAPPINGS),
        secrets=draw(MAPPINGS),
        job_retry_count=draw(st.integers(0, 2**31 - 1)),
        deployments=tuple(deployments),
        virtual_cluster=draw(SOME_TEXT),
        deployment=draw(st.sampled_from([None, *(one.name for one in deployments)])),
        defaults_extra={k: v for k, v in draw(MAPPINGS).items() if k not in ("virtualCluster", "deployment")},
        extras={f"mine {key}": value for key, value in draw(MAPPINGS).items()},
        version=draw(OPTIONAL),
        contributor=draw(OPTIONAL),
        description=draw(OPTIONAL),
    )


@given(specs())
def test_a_job_survives_being_written_and_stored_and_its_secrets_stay_hidden(spec: JobSpec) -> None:
    # Drawing a job costs more than all the checks.
    assert read_job(to_yaml(spec, mask_secrets=False)).spec == spec
    assert read_job(json.dumps(document_of(spec))).spec == spec
    stored = dump_spec(spec)
    assert load_spec(stored, spec.secrets) == spec
    assert "secrets" not in json.loads(stored)
    assert parse(to_yaml(spec)).documents[0].get("secrets", {}) == dict.fromkeys(spec.secrets, "******")


@given(WORDS, TEXT, MAPPINGS)
def test_no_secret_changes_the_structure_around_it(role: str, secret: str, parameters: dict[str, Any]) -> None:
    task_role = TaskRole(role, "image", Resources(1, 1, 0), ("true",))
    spec = JobSpec("job", (task_role,), parameters=parameters, secrets={"key": secret})
    value = {"a": ["<% $secrets.key %>", 1, None], "b": {"c": "x<% $secrets.key %>y"}}
    assert render_value(value, spec, role) == {"a": [secret, 1, None], "b": {"c": f"x{secret}y"}}


def faults_or_none(text: str | bytes) -> tuple[Fault, ...] | None:
    try:
        read_job(text)
    except InvalidProtocol as refusal:
        return refusal.faults
    return None


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_gets_an_answer_and_never_a_crash(text: str | bytes) -> None:
    faults = faults_or_none(text)
    assert faults
    assert all(fault.message for fault in faults)


KEYS = "protocolVersion name type taskRoles prerequisites deployments defaults extras secrets jobName image jobEnvs"
JUNK = st.sampled_from([*KEYS.split(), "job", "data", "hivedScheduler", "auth", "worker", "commands"])
ANYTHING = st.recursive(
    SCALARS | JUNK | st.just(2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JUNK | TEXT, inner, max_size=5),
    max_leaves=25,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS.split(), ANYTHING)))
def test_values_of_any_shape_anywhere_get_faults_and_never_a_crash(document: dict[str, Any]) -> None:
    assert faults_or_none(json.dumps(document)) != ()
