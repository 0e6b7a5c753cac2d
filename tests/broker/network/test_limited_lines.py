"""Log lines with a limit on their number."""

import logging

from broker.network.limited_lines import LINES_IN_A_WINDOW, WINDOW_S, LimitedLines


def test_a_window_has_some_lines_and_the_next_tells_how_many_were_left_out(caplog):
    caplog.set_level(logging.INFO)
    now_s = 0.0
    lines = LimitedLines(logging.getLogger("test"), lambda: now_s, lambda number: f"{number} more")
    for number in range(LINES_IN_A_WINDOW + 3):
        lines.add("line %d", number)
    expected = [f"line {number}" for number in range(LINES_IN_A_WINDOW)]
    assert [one.getMessage() for one in caplog.records] == expected
    now_s = WINDOW_S
    lines.add("line %s", "%d")
    now_s = 2 * WINDOW_S
    lines.add("last")
    assert [one.getMessage() for one in caplog.records] == [*expected, "3 more", "line %d", "last"]
