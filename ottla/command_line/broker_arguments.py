"""`ottla broker`: run a broker in the foreground until SIGTERM or Ctrl-C.

The few arguments are parsed without Typer, whose import takes 0.1 s and 10 MB. The Typer command, which shows `--help`,
uses the same functions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.command_line.broker_short_options import SHORT_OPTIONS, long_forms
from ottla.command_line.failure import CommandError, suggest
from protocol.classic_names import Reader, advice

USAGE = (
    "usage: ottla broker [server.properties] [--port PORT] [--data-dir DIR] [--log-level LEVEL] [--processes N]"
    " [--set name=value]..."
)
MAX_PROCESSES = 64


def run_from_arguments(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the broker until it ends and return its exit code.

    Raises CommandError for invalid arguments.
    """
    return run_broker(*parse_arguments(arguments))


class BrokerArguments(NamedTuple):
    """path: the properties file, if one is given. settings: the values of `--set` and of its short forms."""

    path: Path | None
    settings: list[str]
    processes: int | None


def parse_arguments(arguments: Sequence[str]) -> BrokerArguments:
    """Parse the arguments. Raises CommandError."""
    path: Path | None = None
    processes: int | None = None
    settings: list[str] = []
    short: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("--set", "-s"):
            if not rest:
                raise CommandError(f"{word} needs name=value; {USAGE}")
            settings.append(rest.pop(0))
        elif word.startswith("--set="):
            settings.append(word.removeprefix("--set="))
        elif (short_option := word.partition("=")[0]) in SHORT_OPTIONS:
            if "=" not in word and not rest:
                raise CommandError(f"{word} needs a value; {USAGE}")
            short[short_option] = word.partition("=")[2] if "=" in word else rest.pop(0)
        elif word == "--processes" or word.startswith("--processes="):
            if "=" not in word and not rest:
                raise CommandError(f"{word} needs a number; {USAGE}")
            processes = number_of_processes(word.partition("=")[2] if "=" in word else rest.pop(0))
        elif word.startswith("-") and word != "-":
            option = word.partition("=")[0]
            instead = advice(option, Reader.BROKER)
            hint = suggest(option, ["--set", "--processes", *SHORT_OPTIONS]) if instead is None else f": {instead}"
            raise CommandError(f"no such option: {option}{hint}; {USAGE}")
        elif path is None:
            path = Path(word)
        else:
            raise CommandError(f"only one properties file is allowed, not also {word!r}; {USAGE}")
    return BrokerArguments(path, settings + long_forms(short, path, settings), processes)


def number_of_processes(text: str) -> int:
    """Return the value of `--processes`. Raises CommandError."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PROCESSES):
        raise CommandError(f"--processes {text!r}: must be a number from 1 to {MAX_PROCESSES}")
    return int(text)


def run_broker(path: Path | None, settings: Sequence[str], processes: int | None) -> int:
    """Run the broker, or so many broker processes, until a signal, and return the exit code."""
    overrides = parse_settings(settings)
    if path is not None and not path.is_file():
        raise CommandError(f"no properties file {path}")
    if processes is not None:
        from ottla.command_line.broker_processes import run_processes  # takes 0.1 s, which one broker does not need

        return run_processes(path, overrides, processes)
    from broker.main import run  # takes 0.1 s and 8 MB; --help and wrong arguments do not need it

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
