"""How much one step of a move between log directories copies."""

from itertools import repeat

import pytest

from replication.log_dir_move import LARGE_STEP_BYTES, LARGEST_STEP_BYTES, SMALLEST_STEP_BYTES, STEP_S, StepSize

FAST_S, FAIR_S, SLOW_S = STEP_S / 4, STEP_S * 0.75, STEP_S * 2
MANY = 20


def sizes(size, times_s, *, falls_behind=False):
    """The sizes of the steps that follow steps of these durations."""
    found = []
    for took_s in times_s:
        size.adapt(took_s, falls_behind=falls_behind)
        found.append(size.bytes)
    return found


def test_fast_steps_grow_and_slow_ones_shrink_within_limits():
    size = StepSize()
    first = size.bytes
    assert first == SMALLEST_STEP_BYTES
    assert sizes(size, repeat(FAST_S, 3)) == [first * 2, first * 4, first * 8]
    assert sizes(size, [FAIR_S, STEP_S, STEP_S / 2]) == [first * 8] * 3
    assert sizes(size, repeat(FAST_S, MANY))[-1] == LARGE_STEP_BYTES
    assert sizes(size, [SLOW_S, SLOW_S]) == [LARGE_STEP_BYTES // 2, LARGE_STEP_BYTES // 4]
    assert sizes(size, repeat(SLOW_S, MANY))[-1] == SMALLEST_STEP_BYTES


@pytest.mark.parametrize("took_s", [FAST_S, FAIR_S, SLOW_S])
def test_steps_grow_beyond_that_while_appends_are_faster(took_s):
    size = StepSize()
    first = size.bytes
    assert sizes(size, repeat(took_s, 2), falls_behind=True) == [first * 2, first * 4]
    assert sizes(size, repeat(took_s, MANY), falls_behind=True)[-1] == LARGEST_STEP_BYTES
    assert sizes(size, [FAST_S]) == [LARGEST_STEP_BYTES]
    assert sizes(size, repeat(SLOW_S, MANY))[-1] == SMALLEST_STEP_BYTES
