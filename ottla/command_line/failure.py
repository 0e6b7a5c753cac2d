"""Error messages for the user of a command: one line each."""

import re
from difflib import get_close_matches

from client.errors import NoBrokersAvailableError
from ottla.guard import PACKAGES
from protocol.classic_names import classic_name, option_instead, replacement

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_MIN_START = 3
_OURS = (*PACKAGES, "ottla")


class CommandError(Exception):
    """The command cannot do what the user asked; the message is printed, and the command exits with `exit_code`."""

    exit_code = 1


class UnverifiedError(CommandError):
    """A directory cannot be verified: it is in use, or it is not a log directory."""

    exit_code = 2


def explain(error: Exception) -> str:
    """Return an error as one line; for an unexpected error with its type, for a bug report."""
    if hasattr(error, "format_message"):  # Typer's own: a wrong option, a missing argument
        return _one_line(_of_unknown_option(error) or error.format_message())
    if isinstance(error, NoBrokersAvailableError):
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        return _one_line(f"{error}{notes}. Start one with `ottla broker`, or name another with --bootstrap-server")
    if type(error).__module__.partition(".")[0] in _OURS:
        return _one_line(str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return _one_line(f"{where}{re.sub(_ERRNO, '', error.strerror or str(error))}")
    return _one_line(f"unexpected {type(error).__name__}: {error} (OTTLA_DEBUG=1 shows where)")


def _of_unknown_option(error: Exception) -> str | None:
    """Return the message for an unknown option: near options, or for a Kafka setting what to use or what reads it.

    None for other errors.
    """
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not option or context is None or not hasattr(error, "possibilities"):
        return None
    have = {word for parameter in context.command.params for word in parameter.opts if word.startswith("--")}
    message = str(getattr(error, "message", error))
    if (instead := option_instead(option, have)) is not None:
        return f"{message}: use {instead}"
    row = classic_name(option)
    hint = suggest(option, sorted(have)) + ("" if row is None else f" ({replacement(row)})")
    if not hint and hasattr(context.command, "commands"):
        hint = f"; an option of a command stands after the command: `{context.command_path} COMMAND {option}`"
    return message + hint


def _one_line(text: str) -> str:
    return " ".join(text.split())


def suggest(name: str, known: list[str]) -> str:
    """Return a hint with near names, such as " (did you mean orders?)"; empty if no known name is near.

    A name is near if it differs by a typo, or if one of the two names starts with the other one.
    """
    lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), lower, n=3, cutoff=0.8)
    longer = [one for one in sorted(lower) if _starts(one, name.lower()) or _starts(name.lower(), one)]
    near = [lower[one] for one in dict.fromkeys(close + longer)][:3]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _starts(long: str, short: str) -> bool:
    return long.startswith(short) and len(short.strip("-")) >= _MIN_START
