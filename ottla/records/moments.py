"""Times on the command line: absolute ones, and ones before now."""

from ottla.command_line.durations import parse_duration
from ottla.command_line.failure import CommandError
from ottla.command_line.options import parse_time


def parse_moment(text: str, option: str, now_ms: int) -> int:
    """Return milliseconds since the epoch of "-1h", "-1h30m" (before `now_ms`), of milliseconds or of an ISO time.

    Raises CommandError, which names the option.
    """
    try:
        return now_ms - parse_duration(text[1:], option) if text.startswith("-") else parse_time(text, option)
    except CommandError:
        raise CommandError(
            f"{option} {text!r} is not a time: write milliseconds, an ISO time such as 2026-11-21T08:00,"
            " or a time before now such as -1h30m"
        ) from None
