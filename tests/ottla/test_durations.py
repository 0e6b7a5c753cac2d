"""Durations that users give."""

import pytest

from ottla.command_line.durations import parse_duration
from ottla.command_line.failure import CommandError

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1h", HOUR),
        ("1h30m", HOUR + 30 * MINUTE),
        ("7d", 7 * DAY),
        ("1w2d", 9 * DAY),
        ("90s", 90_000),
        ("1.5h", 90 * MINUTE),
        ("500ms", 500),
        ("2m1ms", 2 * MINUTE + 1),
        ("0s", 0),
        ("PT1H", HOUR),
        ("pt1h30m", 90 * MINUTE),
        ("P7D", 7 * DAY),
        ("P1DT2H3M4.005S", DAY + 2 * HOUR + 3 * MINUTE + 4_005),
        ("P2W", 14 * DAY),
    ],
)
def test_durations(text, ms):
    assert parse_duration(text, "--by-duration") == ms


@pytest.mark.parametrize("text", ["", "1", "h", "P", "PT", "P1DT", "1h 30m", "30m1h", "-1h", "PT1D", "1y", "soon"])
def test_other_texts_are_refused(text):
    with pytest.raises(CommandError, match=f"--by-duration '{text}' is not a duration such as"):
        parse_duration(text, "--by-duration")
