"""A Kerberos realm with a KDC of its own (MIT's krb5kdc), for as long as a test needs it.

Tests that use it need the package `gssapi`, which is built with Kerberos's C library and is not in `ottla[test]`, and
Debian's packages of the KDC. Without one of them they are skipped, all with the same reason; with CI=true they fail.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from ottla.cluster.ports import free_ports
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.sasl.gssapi_client import GssapiClient
from security.sasl.kerberos_login import KerberosLogin
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.programs import do_without
from support.wire import WireClient

REALM: Final = "OTTLA.TEST"
HOST: Final = "localhost"
"""The host name in the principals of brokers; clients connect to it."""

_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_CYRUS_MODULES: Final = ("usr/lib/*/sasl2/libgssapiv2.so", "usr/lib*/sasl2/libgssapiv2.so")
"""GSSAPI for kcat."""
WITHOUT_KERBEROS: Final = (
    "Kerberos tests: install Debian's `libkrb5-dev`, `krb5-kdc`, `krb5-admin-server`, `krb5-user` and "
    "`libsasl2-modules-gssapi-mit`, and run `make setup-kerberos`"
)
_PATH: Final = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])


def need_kerberos() -> dict[str, str]:
    """Skip the test without Kerberos. Return the paths of its programs."""
    found = {name: path for name in _PROGRAMS if (path := shutil.which(name, path=_PATH)) is not None}
    try:
        import gssapi  # noqa: F401 - may be missing
    except ImportError:
        do_without(WITHOUT_KERBEROS)
    if len(found) < len(_PROGRAMS) or not any(list(Path("/").glob(one)) for one in _CYRUS_MODULES):
        do_without(WITHOUT_KERBEROS)
    return found


class Realm:
    """A realm whose KDC runs. environment: what makes programs use it."""

    def __init__(self, folder: Path, programs: Mapping[str, str]) -> None:
        (port,) = free_ports(1)
        self.folder = folder
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'no-tickets'}",
            "KRB5_KTNAME": f"FILE:{folder / 'no-keytab'}",
            "KRB5_CLIENT_KTNAME": f"FILE:{folder / 'no-keytab'}",
            "KRB5RCACHEDIR": str(folder),
        }
        self._programs = programs
        (folder / "krb5.conf").write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_canonicalize_hostname = false\n"
            f"rdns = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{port}\n}}\n[domain_realm]\n{HOST} = {REALM}\n"
        )
        (folder / "kdc.conf").write_text(
            f'[kdcdefaults]\nkdc_listen = ""\nkdc_tcp_listen = 127.0.0.1:{port}\n'
            f"[realms]\n{REALM} = {{\n database_name = {folder / 'principal'}\n key_stash_file = {folder / 'stash'}\n"
            f" acl_file = {folder / 'kadm5.acl'}\n max_life = 1h\n supported_enctypes = aes256-cts:normal\n}}\n"
            f"[logging]\nkdc = FILE:{folder / 'kdc.log'}\n"
        )
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-password")
        self._kdc = subprocess.Popen(
            [programs["krb5kdc"], "-n", "-r", REALM], env=self._variables(), stdout=subprocess.DEVNULL
        )
        self.port = port

    def wait_until_ready(self) -> None:
        """Wait until the KDC accepts connections."""

        def accepts() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        until_blocking(accepts, "the KDC accepts connections")

    def stop(self) -> None:
        """End the KDC."""
        self._kdc.terminate()
        self._kdc.wait(DEADLINE_S)

    def run(self, program: str, *arguments: str, **more: str) -> str:
        """Run a program of Kerberos in this realm. Return its output. more: variables of its environment."""
        done = subprocess.run(
            [self._programs[program], *arguments],
            env=self._variables() | more,
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def keytab(self, *principals: str, name: str | None = None) -> Path:
        """Make principals (without the realm) with random keys. Return a keytab that has them."""
        file = self.folder / f"{(name or principals[0]).replace('/', '-')}.keytab"
        commands = [f"addprinc -randkey {one}" for one in principals]
        commands += [f"ktadd -k {file} -norandkey {one}" for one in principals]
        for command in commands:
            self.run("kadmin.local", "-r", REALM, "-q", command)
        assert file.exists()
        return file

    def tickets(self, keytab: Path, principal: str, *arguments: str) -> Path:
        """Return a ticket cache of a principal."""
        file = self.folder / f"{principal.replace('/', '-')}.tickets"
        self.run("kinit", "-c", str(file), "-k", "-t", str(keytab), *arguments, principal)
        return file

    def without_kdc(self) -> str:
        """Return a file for KRB5_CONFIG whose KDC has a port that nobody listens on."""
        file = self.folder / "krb5-without-kdc.conf"
        used = (self.folder / "krb5.conf").read_text()
        file.write_text(used.replace(f"127.0.0.1:{self.port}", "127.0.0.1:9"))
        return str(file)

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


@contextmanager
def running_realm(folder: Path) -> Iterator[Realm]:
    """A realm that this process uses, too."""
    programs = need_kerberos()
    realm = Realm(folder, programs)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in realm.environment.items():
            patched.setenv(name, value)
        try:
            realm.wait_until_ready()
            yield realm
        finally:
            realm.stop()


async def kerberos_login(client: WireClient, keytab: Path, principal: str, version: int = 2) -> int:
    """Log in with a ticket for the broker. Return the error code of the last answer."""
    from security.sasl.kerberos import initiate  # gssapi may be missing

    ticket = initiate(KerberosLogin(str(keytab), principal), "kafka", HOST)
    exchange = GssapiClient(ticket)
    await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    message: bytes | None = exchange.first()
    while message is not None:
        answer = await client.call(SaslAuthenticateRequest(auth_bytes=message), version)
        if answer.error_code:
            return int(answer.error_code)
        message = exchange.answer(bytes(answer.auth_bytes))
    return 0
