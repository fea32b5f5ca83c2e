"""A real directory for tests: OpenLDAP's slapd in a process of its own, with people and groups of both kinds."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.ports import free_port

SLAPD = shutil.which("slapd") or shutil.which("slapd", path="/usr/sbin")
BASE = "dc=example,dc=org"
_PEOPLE = {"erin": "erin's word", "frank*": "frank's word", "grace": "grace's word", "heidi": "½ \u00ad\tpound"}

_CONFIG = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {root}/slapd.pid
TLSCertificateFile {root}/cert.pem
TLSCertificateKeyFile {root}/key.pem
TLSVerifyClient never
allow bind_anon_cred
database mdb
maxsize 10485760
suffix "dc=example,dc=org"
rootdn "cn=search,dc=example,dc=org"
rootpw secret
directory {root}/data
access to attrs=userPassword by anonymous auth by * none
access to * by users read by anonymous none
"""


@dataclass(frozen=True, slots=True)
class LdapServer:
    """Where the directory listens."""

    url: str
    secure_url: str
    ca_file: str


@contextmanager
def ldap_server(root: Path) -> Iterator[LdapServer]:
    """Start a directory; skip the test where the machine has no slapd."""
    if SLAPD is None or not Path("/etc/ldap/schema/inetorgperson.schema").exists():
        pytest.skip("needs OpenLDAP's slapd (Debian: slapd), which this machine lacks")
    (root / "data").mkdir()
    _certificate(root)
    (root / "slapd.conf").write_text(_CONFIG.format(root=root))
    (root / "people.ldif").write_text(_ldif())
    load = [SLAPD, "-T", "add", "-f", str(root / "slapd.conf"), "-l", str(root / "people.ldif")]
    subprocess.run(load, check=True, capture_output=True)
    plain, secure = free_port(), free_port()
    urls = f"ldap://127.0.0.1:{plain}/ ldaps://127.0.0.1:{secure}/"
    command = [SLAPD, "-f", str(root / "slapd.conf"), "-h", urls, "-d", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for(process, root / "slapd.pid")
            yield LdapServer(f"ldap://127.0.0.1:{plain}", f"ldaps://127.0.0.1:{secure}", str(root / "cert.pem"))
        finally:
            process.terminate()
            process.wait(60)


def _wait_for(process: subprocess.Popen[str], path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline, "slapd does not start"
        # Nothing announces that it listens but this file.
        time.sleep(0.02)


def _ldif() -> str:
    entries = [f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n"]
    units = ("people", "groups")
    entries += [f"dn: ou={unit},{BASE}\nobjectClass: organizationalUnit\nou: {unit}\n" for unit in units]
    for name, word in _PEOPLE.items():
        entries.append(
            f"dn: uid={name},ou=people,{BASE}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
            f"mail: {name.strip('*')}@example.org\nuserPassword:: {base64.b64encode(word.encode()).decode()}\n"
        )
    for group, member in (("vision", "erin"), ("speech", "grace")):
        dn = f"uid={member},ou=people,{BASE}"
        entries.append(f"dn: cn={group},ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: {group}\nmember: {dn}\n")
    entries.append(f"dn: cn=unix,ou=groups,{BASE}\nobjectClass: posixGroup\ncn: unix\ngidNumber: 7\nmemberUid: erin\n")
    return "\n".join(entries)


def _certificate(root: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=1))
    made = made.not_valid_after(now + dt.timedelta(days=1)).add_extension(address, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    encoding = serialization.Encoding.PEM
    (root / "cert.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(encoding))
    form = serialization.PrivateFormat.PKCS8
    (root / "key.pem").write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
