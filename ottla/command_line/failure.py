"""Error messages for the user of a command: one line each."""

import re

from ottla.guard import PACKAGES

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_OURS = (*PACKAGES, "ottla")


class CommandError(Exception):
    """The command cannot do what the user asked; the message is printed, and the command exits with `exit_code`."""

    exit_code = 1


class UnverifiedError(CommandError):
    """A directory cannot be verified: it is in use, or it is not a log directory."""

    exit_code = 2


def explain(error: Exception) -> str:
    """Return an error as one line; for an unexpected error with its type, for a bug report."""
    from client.errors import NoBrokersAvailableError

    if hasattr(error, "format_message"):  # Typer's own: a wrong option, a missing argument
        return _one_line(_of_classic_option(error) or error.format_message())
    if isinstance(error, NoBrokersAvailableError):
        return _one_line(f"{error}. Start one with `ottla broker`, or name another with --bootstrap-server")
    if type(error).__module__.partition(".")[0] in _OURS:
        return _one_line(str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return _one_line(f"{where}{re.sub(_ERRNO, '', error.strerror or str(error))}")
    return _one_line(f"unexpected {type(error).__name__}: {error} (OTTLA_DEBUG=1 shows where)")


def _of_classic_option(error: Exception) -> str | None:
    """Return the message for an option that is a Kafka setting: the option to use instead, or what reads the setting.

    None for other options.
    """
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not option or context is None:
        return None
    from protocol.classic_names import classic_name, option_instead, replacement

    have = {word for parameter in context.command.params for word in parameter.opts if word.startswith("--")}
    if (instead := option_instead(option, have)) is not None:
        return f"No such option: {option}: use {instead}"
    row = classic_name(option)
    return None if row is None else f"{error.format_message()} ({replacement(row)})"  # type: ignore[attr-defined]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def suggest(name: str, known: list[str]) -> str:
    """Return a hint with similar names, such as " (did you mean orders?)"; empty if no known name is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
