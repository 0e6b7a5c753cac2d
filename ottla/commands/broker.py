"""`ottla broker`: run a broker in the foreground until SIGTERM or Ctrl-C.

This module parses the few arguments itself, without Typer, so that the broker starts fast. The Typer command
below, which shows `--help`, uses the same functions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.command_line.failure import CommandError

if TYPE_CHECKING:
    import typer

USAGE = "usage: ottla broker [server.properties] [--set name=value]..."


def run_from_arguments(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the broker until it ends and return its exit code.

    Raises CommandError for invalid arguments.
    """
    path, settings = parse_arguments(arguments)
    return run_broker(path, settings)


def parse_arguments(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Return the properties file, if one is given, and the values of `--set`. Raises CommandError."""
    path: Path | None = None
    settings: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("--set", "-s"):
            if not rest:
                raise CommandError(f"{word} needs name=value; {USAGE}")
            settings.append(rest.pop(0))
        elif word.startswith("--set="):
            settings.append(word.removeprefix("--set="))
        elif word.startswith("-") and word != "-":
            from protocol.classic_names import Reader, advice

            option = word.partition("=")[0]
            instead = advice(option, Reader.BROKER)
            raise CommandError(f"no such option: {option}{'' if instead is None else f': {instead}'}; {USAGE}")
        elif path is None:
            path = Path(word)
        else:
            raise CommandError(f"only one properties file is allowed, not also {word!r}; {USAGE}")
    return path, settings


def run_broker(path: Path | None, settings: Sequence[str]) -> int:
    """Run the broker until it ends and return its exit code."""
    overrides = parse_settings(settings)
    if path is not None and not path.is_file():
        raise CommandError(f"no properties file {path}")
    from broker.main import run

    return run(path, overrides)


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return the settings by name; each text is "name=value". Raises CommandError."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{text!r} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


def register(app: "typer.Typer") -> None:
    """Add the command."""
    from typing import Annotated

    import typer

    @app.command(epilog="Example:  ottla broker --set listeners=PLAINTEXT://127.0.0.1:9192 --set log.dirs=/tmp/ottla")
    def broker(
        properties: Annotated[
            Path | None,
            typer.Argument(help="A server.properties in Apache Kafka's format.", metavar="[FILE]"),
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting; overrides the file. Repeatable."),
        ] = None,
    ) -> None:
        """Run a broker in the foreground; Ctrl-C or SIGTERM stops it cleanly.

        Without a file the broker listens on 127.0.0.1:9092; with a file, settings that it does not contain have
        Kafka's defaults.
        """
        raise typer.Exit(run_broker(properties, settings or []))
