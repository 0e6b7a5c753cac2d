"""`ottla console`: the REST API of any Kafka cluster, over HTTP."""

from typing import Annotated

import typer

from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, parse_pairs
from ottla.command_line.session import run

_PREFIX = "ottla.console."
_ADDRESS = "127.0.0.1:8082"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(epilog="Example:  ottla console --bootstrap-server kafka.example:9092 --listen 127.0.0.1:8082")
    def console(
        listen: Annotated[
            str,
            typer.Option(
                "--listen",
                metavar="HOST:PORT",
                help="The address for HTTP; https://HOST:PORT for TLS. Port 0: any free port.",
            ),
        ] = _ADDRESS,
        settings: Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                "-s",
                metavar="NAME=VALUE",
                help="A setting ottla.console.… as for a broker: logins, TLS, host names. Repeatable.",
            ),
        ] = None,
        bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    ) -> None:
        """Serve the console of a Kafka cluster: pages and REST API; Ctrl-C stops it.

        The paths below /v3 are those of Confluent's REST Proxy. An address that is not 127.0.0.1 needs logins, by the
        same rules as the console of a broker. The cluster decides what the user of --command-config may do.
        """
        given = parse_pairs(settings, "--set")
        for name in given:
            if not name.startswith(_PREFIX) or name == f"{_PREFIX}listener":
                raise CommandError(
                    f"--set {name}: only settings {_PREFIX}… have an effect here; --listen is the address"
                )
        run(_serve(listen, given, bootstrap_server))


async def _serve(listen: str, settings: dict[str, str], bootstrap_server: str) -> None:
    try:
        from ottla.commands.console_serving import serve  # the extra `console`, and aiohttp: 0.3 s
    except ImportError as error:
        raise CommandError(f"the console needs {error.name or error}: pip install 'ottla[console]'") from None
    await serve(listen, settings, bootstrap_server)
