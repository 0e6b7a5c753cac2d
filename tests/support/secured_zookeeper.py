"""ZooKeepers with TLS and SASL; one of them is shared by the whole run of pytest, started at its first use.

Both ports of a server accept the users of `USERS` (DIGEST-MD5); the TLS port asks for a client certificate and accepts
one of `authority()`. Its certificate is `server_certificate()`.
"""

import functools

from ottla.cluster.ports import HOST, free_ports
from ottla.zookeeper.files import find_jars, server_command
from ottla.zookeeper.server import ZooKeeperEnsemble, ZooKeeperServer
from registry.zookeeper.security import DigestLogin, ZooKeeperSecurity
from registry.zookeeper.settings import NETTY_SOCKET
from security.jaas import ZOOKEEPER_MODULE
from security.secret import Secret
from security.tls.contexts import client_context
from security.tls.settings import TlsSettings
from support.certificates import authority, client_certificate, server_certificate
from support.zookeeper import started

USERS = {"kafka": "kafka-secret", "other": "other-secret"}

CONFIGURATION = """\
secureClientPort={port}
secureClientPortAddress={host}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
ssl.keyStore.location={folder}/server.pem
ssl.trustStore.location={folder}/ca.pem
ssl.clientAuth=want
ssl.enabledProtocols=TLSv1.2,TLSv1.3
"""
OF_SEVERAL = """\
enforce.auth.enabled=true
enforce.auth.schemes=sasl
sslQuorum=true
ssl.quorum.keyStore.location={folder}/server.pem
ssl.quorum.trustStore.location={folder}/ca.pem
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

    def __init__(self, folder, port, tls_port):
        super().__init__(folder, port)
        self.tls_port = tls_port

    @property
    def tls_address(self):
        return f"localhost:{self.tls_port}"

    def command(self):
        return command_with_sasl(self.folder, {})

    def secure(self, configuration):
        """Add to the configuration, and write the stores and the JAAS file."""
        with (self.folder / "zoo.cfg").open("a") as file:
            file.write(configuration.format(port=self.tls_port, host=HOST, folder=self.folder))
        server_certificate().write(self.folder / "server.pem")
        client_certificate().write(self.folder / "client.pem")
        authority().write(self.folder / "ca.pem")
        options = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        (self.folder / "jaas.conf").write_text(f"Server {{\n  {ZOOKEEPER_MODULE} required {options};\n}};\n")

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


class SecuredEnsemble(ZooKeeperEnsemble):
    """Such servers; `connect` has their ports for TLS.

    Several servers refuse every request before the login, and use TLS between each other.
    """

    @property
    def connect(self):
        return ",".join(f"{HOST}:{server.tls_port}" for server in self.servers)

    @property
    def settings(self):
        """How brokers connect: with TLS, as the user kafka, who protects what it creates."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY_SOCKET,
            "zookeeper.ssl.truststore.location": str(self.servers[0].folder / "ca.pem"),
            "zookeeper.set.acl": "true",
            "ottla.zookeeper.sasl.jaas.config": (
                f'{ZOOKEEPER_MODULE} required username="kafka" password="{USERS["kafka"]}";'
            ),
        }

    @property
    def security(self):
        """How a registry connects in the same way."""
        return self.servers[0].security(tls=True, user="kafka", sets_acls=True)

    def _configure(self):
        super()._configure()
        ports = free_ports(len(self.servers))
        pairs = zip(self.servers, ports, strict=True)
        self.servers = [SecuredServer(server.folder, server.port, port) for server, port in pairs]
        for server in self.servers:
            server.secure(CONFIGURATION if len(ports) == 1 else CONFIGURATION + OF_SEVERAL)


@functools.cache
def shared_secured_zookeeper():
    """Return the shared one; it is ready."""
    return started(SecuredEnsemble(sync=False))


def secured_zookeeper():
    """Return the server of the shared one."""
    return shared_secured_zookeeper().servers[0]
