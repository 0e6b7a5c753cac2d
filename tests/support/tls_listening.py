"""A TLS listener over a real socket, and clients for it."""

import asyncio
import contextlib
import ssl

from broker.network.listener import Listener
from broker.network.listener_tls import ListenerTls
from broker.settings.config import BrokerConfig
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from registry.znodes.configs import BrokerConfigZnode, TopicConfigZnode
from security.tls.contexts import client_context
from security.tls.settings import TlsSettings
from support.certificates import authority, server_certificate
from support.connections import framed
from support.listening import listening


def tls_settings(folder, *, server=None, trusted=None):
    """The settings of a broker's key store and trust store, as files in `folder`."""
    (server or server_certificate()).write(folder / "server.pem")
    (trusted or authority()).write(folder / "ca.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


def listener_tls(folder, *, protocol="SSL", server=None, **others):
    values = tls_settings(folder, server=server)
    values |= {name.replace("_", "."): value for name, value in others.items()}
    config = BrokerConfig(values, has_file=False)
    return ListenerTls(Listener("SSL", "127.0.0.1", 0, protocol), config.of_listener("SSL"))


def client_tls(issued=None, trusted=None, **others):
    """The context of a client, with a certificate or without."""
    values = {"truststore_type": "PEM", "truststore_certificates": (trusted or authority()).pem()} | others
    if issued is not None:
        values |= {
            "keystore_type": "PEM",
            "keystore_key": issued.key_pem(),
            "keystore_certificate_chain": issued.chain_pem(),
        }
    return client_context(TlsSettings(**values))


@contextlib.asynccontextmanager
async def tls_listening(folder, *args, settings=None, server=None, **options):
    async with listening(*args, tls=listener_tls(folder, server=server, **(settings or {})), **options) as acceptor:
        yield acceptor


class TlsClient:
    """A client that speaks TLS. Entering it raises ssl.SSLError or OSError if the handshake fails."""

    def __init__(self, port, context=None, host="localhost"):
        self._port = port
        self._context = context or client_tls()
        self._host = host

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context, server_hostname=self._host, limit=1 << 24
        )
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    @property
    def tls(self) -> ssl.SSLObject:
        return self.writer.get_extra_info("ssl_object")

    @property
    def serial(self):
        """The serial number of the broker's certificate."""
        return int(self.tls.getpeercert()["serialNumber"], 16)

    async def ask(self, body):
        self.writer.write(framed(body))
        return await self.answer()

    async def answer(self):
        size = int.from_bytes(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)


# -- dynamic settings of a broker --------------------------------------------------------------------------------------

BROKER, SET, DELETE = 4, 0, 1


async def alter_broker(client, values, resource="0"):
    """Change dynamic settings (None: delete); return the error code and message."""
    operations = [
        AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in values.items()
    ]
    one = AlterConfigsResource(resource_type=BROKER, resource_name=resource, configs=operations)
    (response,) = (await client.call(IncrementalAlterConfigsRequest(resources=[one]), 1)).responses
    return response.error_code, response.error_message


async def stored_settings(broker):
    """The dynamic settings of a broker as they are in the registry."""
    path = BrokerConfigZnode.path(broker.services.broker_id)
    data, _ = await broker.services.registry_access.registry.get(path)
    return TopicConfigZnode.decode(data, path).config
