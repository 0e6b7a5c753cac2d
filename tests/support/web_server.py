"""A web server of a test, with TLS or without."""

import contextlib
import ssl

from aiohttp import web

from support.certificates import server_certificate


@contextlib.asynccontextmanager
async def served(answer, tls=None):
    """Answer every request with the coroutine function `answer`; yield the port."""
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def server_tls(folder):
    """The context of a server with the certificate of the tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_certificate().write(folder / "web-server.pem"))
    return context
