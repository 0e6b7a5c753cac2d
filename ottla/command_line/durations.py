"""Durations that users give and read: ISO 8601 ("PT1H30M", as Kafka's tools take them) and the short form "1h30m"."""

import re
from typing import Final

from ottla.command_line.failure import CommandError

_SECOND_MS: Final = 1_000
_UNITS_MS: Final = {
    "w": 7 * 24 * 3_600 * _SECOND_MS,
    "d": 24 * 3_600 * _SECOND_MS,
    "h": 3_600 * _SECOND_MS,
    "m": 60 * _SECOND_MS,
    "s": _SECOND_MS,
    "ms": 1,
}
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_SHORT: Final = re.compile("".join(rf"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _UNITS_MS))
_ISO: Final = re.compile(
    rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)


def parse_duration(text: str, option: str) -> int:
    """Return the milliseconds of "PT1H30M", "P7D", "1h30m", "7d" or "500ms". Raises CommandError for anything else."""
    found = _ISO.fullmatch(text.upper()) or _SHORT.fullmatch(text.lower())
    numbers = {} if found is None else {unit: number for unit, number in found.groupdict().items() if number}
    if not numbers:
        raise CommandError(f"{option} {text!r} is not a duration such as 90s, 1h30m, 7d or PT1H30M")
    return round(sum(float(number) * _UNITS_MS[unit] for unit, number in numbers.items()))
