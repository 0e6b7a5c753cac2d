"""A ZooKeeper with TLS and SASL: one process for the whole run of pytest, started at its first use.

Both ports accept the users of `USERS` (DIGEST-MD5); the TLS port asks for a client certificate and accepts one of
`authority()`. Its certificate is `server_certificate()`.
"""

import asyncio
import atexit
import functools
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.cluster.ports import HOST, free_ports
from ottla.cluster.serving import wait_until_serving
from ottla.command_line.failure import CommandError
from ottla.zookeeper.files import Peer, find_jars, server_command, write_configuration
from ottla.zookeeper.server import ZooKeeperServer
from registry.zookeeper.security import DigestLogin, ZooKeeperSecurity
from security.secret import Secret
from security.tls.contexts import client_context
from security.tls.settings import TlsSettings
from support.certificates import authority, client_certificate, server_certificate

USERS = {"kafka": "kafka-secret", "other": "other-secret"}
START_S = 60
ATTEMPTS = 3  # to find ports that no other process takes meanwhile

CONFIGURATION = """\
secureClientPort={port}
secureClientPortAddress={host}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
ssl.keyStore.location={folder}/server.pem
ssl.trustStore.location={folder}/ca.pem
ssl.clientAuth={client_auth}
ssl.enabledProtocols=TLSv1.2,TLSv1.3
"""


def command_with_sasl(folder, properties):
    """Return the command of a server with logins of `folder`/jaas.conf, and these properties of Java."""
    command = server_command(folder)
    at = command.index("-cp")
    netty = [jar for jar in find_jars()[0].parent.glob("netty-*.jar") if "http" not in jar.name]
    command[at + 1] = ":".join([command[at + 1], *map(str, sorted(netty))])
    properties = {"java.security.auth.login.config": folder / "jaas.conf", **properties}
    return [*command[:at], *(f"-D{name}={value}" for name, value in properties.items()), *command[at:]]


class SecuredServer(ZooKeeperServer):
    """One server with a port for TLS besides the plain one."""

    def __init__(self, folder, client_auth):
        port, self.tls_port, self._unused, self._unused2 = free_ports(4)
        super().__init__(folder, port)
        self.client_auth = client_auth

    @property
    def tls_address(self):
        return f"localhost:{self.tls_port}"

    def command(self):
        return command_with_sasl(self.folder, {})

    def write_files(self):
        peers = [Peer(HOST, self._unused, self._unused2)]
        write_configuration(self.folder, 1, peers, listen=HOST, port=self.port, sync=False)
        with (self.folder / "zoo.cfg").open("a") as file:
            values = {"port": self.tls_port, "host": HOST, "folder": self.folder, "client_auth": self.client_auth}
            file.write(CONFIGURATION.format(**values))
        server_certificate().write(self.folder / "server.pem")
        client_certificate().write(self.folder / "client.pem")
        authority().write(self.folder / "ca.pem")
        self.write_users(USERS)

    def write_users(self, users):
        """Write the JAAS file; the server reads it when it starts."""
        options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        (self.folder / "jaas.conf").write_text(f"Server {{\n  {module} required {options};\n}};\n")

    def security(self, *, tls=False, certificate=False, user=None, password=None, sets_acls=False):
        """How a registry reaches this server."""
        make_context = login = None
        if tls:
            stores = {"truststore_type": "PEM", "truststore_location": str(self.folder / "ca.pem")}
            if certificate:
                stores |= {"keystore_type": "PEM", "keystore_location": str(self.folder / "client.pem")}
            make_context = functools.partial(client_context, TlsSettings(**stores))
        if user is not None:
            login = DigestLogin(user, Secret(USERS[user] if password is None else password))
        return ZooKeeperSecurity(make_context, login, sets_acls)


@functools.cache
def secured_zookeeper():
    """Return the shared server; it is ready. A client certificate is optional."""
    folder = Path(tempfile.mkdtemp(prefix="ottla-secured-zookeeper-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return start_secured_zookeeper(folder, "want")


def start_secured_zookeeper(folder, client_auth):
    """Start a server in a folder; it is killed at the end of the process. client_auth: none, want or need."""
    for attempt in range(1, ATTEMPTS + 1):
        server = SecuredServer(folder, client_auth)
        server.write_files()
        server.start()
        atexit.register(server.kill)
        try:
            with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
                thread.submit(asyncio.run, wait_until_serving(server, START_S)).result()
            return server
        except CommandError as error:
            server.kill()
            if attempt == ATTEMPTS or "in use" not in str(error):
                raise
    raise AssertionError
