"""Times on the command line: absolute ones, and ones before now."""

import re

from ottla.command_line.failure import CommandError
from ottla.command_line.options import parse_time

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"([0-9]+)(ms|[smhdw])")


def parse_moment(text: str, option: str, now_ms: int) -> int:
    """Return milliseconds since the epoch of "-1h", "-1h30m" (before `now_ms`), of milliseconds or of an ISO time.

    Raises CommandError, which names the option.
    """
    if re.fullmatch(rf"-(?:{_PART.pattern})+", text):
        return now_ms - sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))
    try:
        return parse_time(text, option)
    except CommandError:
        raise CommandError(
            f"{option} {text!r} is not a time: write milliseconds, an ISO time such as 2026-11-21T08:00,"
            " or a time before now such as -1h30m"
        ) from None
