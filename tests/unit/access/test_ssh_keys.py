"""Which public SSH keys a profile takes, and what the user name of a connection means."""

from __future__ import annotations

import itertools

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from openpai.access.ssh_destinations import Destination, read_destination, user_name
from openpai.access.ssh_keys import KEYS_MAX, keys_in, read_key, with_key, without_key
from openpai.protocol.errors import Refused


def _line(private: object) -> str:
    return private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()  # type: ignore[attr-defined]


ED = _line(ed25519.Ed25519PrivateKey.from_private_bytes(b"7" * 32))


@pytest.mark.parametrize(
    ("line", "bits"),
    [
        (ED, 256),
        (f"  {ED}  ann@laptop \n", 256),
    ],
)
def test_a_key_is_taken_with_or_without_a_comment(line: str, bits: int) -> None:
    key = read_key(line)
    assert key.bits == bits
    assert line.strip().startswith(key.text)
    assert read_key(key.text).fingerprint == key.fingerprint


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("", "begins with its type"),
        (f'command="rm -rf /" {ED}', "no options"),
        (f"no-pty,{ED}", "no options"),
        (f"cert-authority {ED}", "no options"),
        (f"{ED}\n{ED}", "more than one line"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "private key"),
        ("ssh-dss AAAAB3NzaC1kc3M=", "begins with its type"),
        ("ssh-ed25519", "not a public key"),
        ("ssh-ed25519 AAAA", "not a public key"),
        (ED.replace("ssh-ed25519 ", "ssh-rsa "), "not a public key"),
        (ED[:-8], "not a public key"),
        (f"{ED}{ED.split()[1]}", "not a public key"),
        ("ssh-ed25519 " + "A" * 9000, "at most"),
        ("ssh-ed25519 \u00e4\u00f6", "not a public key"),
    ],
    ids=itertools.count(),
)
def test_other_texts_are_refused_with_a_reason(line: str, part: str) -> None:
    with pytest.raises(Refused, match=part):
        read_key(line)


def test_other_types_are_taken_and_rsa_only_from_2048_bits_on() -> None:
    assert read_key(_line(ec.generate_private_key(ec.SECP384R1()))).bits == 384
    assert read_key(_line(rsa.generate_private_key(65537, 2048))).bits == 2048
    with pytest.raises(Refused, match="1024 bits"):
        read_key(_line(rsa.generate_private_key(65537, 1024)))


def test_titles_do_not_draw_on_a_terminal() -> None:
    assert read_key(f"{ED} \x1b[2Jann\u202e").title == "[2Jann"


def test_a_profile_keeps_each_key_once_and_a_bounded_number() -> None:
    key = read_key(ED)
    extension = {"sshKeys": with_key({}, key)}
    assert keys_in(extension) == (key,)
    with pytest.raises(Refused, match="already"):
        with_key(extension, key)
    full = {"sshKeys": ["no key"] * KEYS_MAX}
    with pytest.raises(Refused, match=f"{KEYS_MAX} are allowed"):
        with_key(full, key)
    assert without_key(extension, key.id) == []
    with pytest.raises(Refused, match="no SSH key"):
        without_key(extension, "x")


@pytest.mark.parametrize("entries", [None, 5, "text", [None, 5, [], {}, {"value": 5}, {"value": "x", "title": 5}]])
def test_what_older_clients_wrote_is_no_key(entries: object) -> None:
    assert keys_in({"sshKeys": entries}) == ()


def test_a_user_name_names_account_job_and_task() -> None:
    assert read_destination("ann+train") == Destination("ann", "train")
    assert read_destination("root+ann~train+worker+3") == Destination("root", "ann~train", "worker", 3)
    assert read_destination("ann") == Destination("ann")
    for wrong in (
        "",
        "+",
        "ann+",
        "+train",
        "ann+a+b+c",
        "ann+a+b+1+2",
        "ann+../x",
        "a b+c",
        "ann+\x1b[2J",
        "ann+t+w+-1",
    ):
        assert read_destination(wrong) is None, wrong
    for name in (user_name("ann", "ann", "train"), user_name("root", "ann", "train", "worker", 2)):
        assert read_destination(name) is not None
