"""A ZooKeeper that accepts tickets of a Kerberos realm, and no other login."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.cluster.ports import HOST as ADDRESS
from ottla.cluster.ports import free_ports
from ottla.cluster.serving import wait_until_serving
from ottla.zookeeper.files import Peer, write_configuration
from ottla.zookeeper.server import ZooKeeperServer
from security.jaas import KERBEROS_MODULE
from support.kerberos import HOST, REALM, Realm
from support.programs import need_java_with_gssapi
from support.secured_zookeeper import command_with_sasl

START_S = 60


class KerberosServer(ZooKeeperServer):
    """One server, whose service is `zookeeper` or another name."""

    def __init__(self, folder: Path, realm: Realm, service: str) -> None:
        port, self._unused, self._unused2 = free_ports(3)
        super().__init__(folder, port)
        self._realm = realm
        self._principal = f"{service}/{HOST}"

    @property
    def kerberos_address(self) -> str:
        """The address with the host name of the principal."""
        return f"{HOST}:{self.port}"

    def command(self) -> list[str]:
        """See `ZooKeeperServer`."""
        return command_with_sasl(self.folder, {"java.security.krb5.conf": self._realm.environment["KRB5_CONFIG"]})

    def write_files(self) -> None:
        """Write the configuration, and the JAAS file with the key of the server."""
        peers = [Peer(ADDRESS, self._unused, self._unused2)]
        write_configuration(self.folder, 1, peers, listen=ADDRESS, port=self.port, sync=False)
        with (self.folder / "zoo.cfg").open("a") as file:
            file.write("authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n")
        keytab = self._realm.keytab(self._principal)
        options = (
            f'useKeyTab=true storeKey=true isInitiator=false keyTab="{keytab}" principal="{self._principal}@{REALM}"'
        )
        (self.folder / "jaas.conf").write_text(f"Server {{\n  {KERBEROS_MODULE} required {options};\n}};\n")


@contextmanager
def kerberos_zookeeper(folder: Path, realm: Realm, service: str = "zookeeper") -> Iterator[KerberosServer]:
    """Run a server in a folder; it is ready."""
    need_java_with_gssapi()
    server = KerberosServer(folder, realm, service)
    server.write_files()
    server.start()
    try:
        asyncio.run(wait_until_serving(server, START_S))
        yield server
    finally:
        server.kill()
