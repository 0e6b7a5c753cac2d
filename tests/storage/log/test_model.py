"""Histories of operations on a log against a model of it (`support.log_history`), driven by hypothesis.

`make fuzz-log COUNT=200000` runs more of them. A failure prints the operations and the numbers that they came from;
`OTTLA_HISTORY='setup, [numbers]' python -m pytest tests/storage/log/test_model.py` goes through them once more.
"""

import ast
import logging
import os

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, given, note, seed, settings

from support.counts import FULL, count
from support.log_history import History
from support.memory_disk import memory_directory

SHARDS = 8  # hypothesis remembers what it has tried: several small runs are faster than a large one
ASKED_FOR = os.environ.get("OTTLA_HISTORIES")
HISTORIES = int(ASKED_FOR or count(400, 20_000)) // SHARDS
IS_RANDOM = FULL or ASKED_FOR is not None
REPLAY = os.environ.get("OTTLA_HISTORY")


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("storage").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("storage").setLevel(logging.NOTSET)


@pytest.fixture
def history():
    with memory_directory("log-model") as root:
        made = History(root)
        yield made
        made.log.release()


def run(setup, numbers):
    with memory_directory("log-model") as root:
        made = History(root, setup)
        try:
            made.run(numbers)
        except BaseException:
            tell = note if currently_in_test_context() else print
            tell("\n".join([f"settings {made.config.overrides}", *made.trail]))
            tell(f"OTTLA_HISTORY='{setup}, {numbers}' python -m pytest tests/storage/log/test_model.py")
            raise


@pytest.mark.counted
@pytest.mark.timeout(0)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_histories(shard):
    @settings(
        max_examples=HISTORIES,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.integers(0, (1 << 16) - 1), st.lists(st.integers(0, (1 << 24) - 1), min_size=20, max_size=60))
    def histories(setup, numbers):
        run(setup, numbers)

    (histories if IS_RANDOM else seed(shard)(histories))()


if REPLAY:

    def test_one_history():
        setup, numbers = ast.literal_eval(REPLAY)
        run(setup, numbers)


# Rarely found by chance, or found once:


@pytest.mark.parametrize("again", [History.restart, History.crash])
@pytest.mark.parametrize("more", [0, 1])
def test_epochs_of_a_log_whose_records_are_all_truncated(history, again, more):
    """The first start forgets the epoch, a recovery after it reads it again."""
    history.append(0, 0)
    history.append_in_next_epoch(0, 0)
    history.commit_all(0, 0)
    history.move_start(255, 0)
    history.flush_all(1, 0)
    history.write_checkpoints(0, 0)
    again(history, 0, 0)
    assert history.log.leader_epochs.entries == [] or again is History.crash
    for _ in range(more):
        history.lead(history.make(0, 0, history.model.end, epoch=1))
    history.crash(0, 0)
    history.check_all()
    assert history.log.leader_epochs.entries == [(1, 2)]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_lost_epoch_does_not_return_with_records_of_the_epoch_before(history, batches):
    """The first start forgets the epoch in memory only; its first offset is then in the middle of another batch."""
    history.append(0, 0)
    history.flush_all(1, 0)
    history.append(0, 0)
    history.append_in_next_epoch(0, 0)
    history.lose_tail(0, 0)
    assert history.model.end == 1
    for _ in range(batches):
        history.lead(history.make(3, 0, history.model.end, epoch=0))
    assert history.model.end == 1 + 4 * batches
    history.crash(0, 0)
    assert history.log.leader_epochs.entries == [(0, 0)]


def test_a_producer_is_known_when_its_records_are_deleted(history):
    history.append_idempotent(0, 0)
    history.roll(0, 0)
    history.append(0, 0)
    history.commit_all(0, 0)
    history.move_start(255, 0)
    history.append(0, 0)
    history.delete_old_segments(0, 0)
    assert [each.base for each in history.model.batches] == [1, 2]
    for _ in range(2):
        assert history.log.producers.producers[100].last_sequence == 0
        history.append_idempotent(0, 8)  # again
        history.append_idempotent(0, 12)  # a gap
        assert history.model.end == 3
        history.restart(0, 0)
    history.append_idempotent(0, 0)
    assert history.model.batches[-1].sequence == 1
    history.check_all()


def test_a_batch_of_before_a_restart_is_known_again_when_it_is_repeated(history):
    """A start knows only the last batch of a producer; if a client repeats an earlier one, the log looks for it."""
    history.append_idempotent(142, 0)
    history.append_idempotent(0, 110)
    history.restart(0, 0)
    assert len(history.log.producers.producers[100].batches) == 1
    history.append_idempotent(132, 152)  # the first one again
    assert len(history.log.producers.producers[100].batches) == 2
    history.check_all()
