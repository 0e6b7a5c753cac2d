"""Where a follower's log parts from its leader's: tables of leader epochs, and all pairs of short histories."""

import itertools

import pytest

from protocol.record_batch_builder import RecordBatchBuilder
from replication.truncation import Truncation, truncation_for
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log.log import Log


@pytest.fixture
def make(tmp_path):
    numbers = itertools.count()

    def made(epochs):
        """A log with one record of each of these epochs."""
        directory = tmp_path / str(next(numbers)) / "t-0"
        directory.mkdir(parents=True)
        log = Log.open(directory, LogConfig(), fs=FileSystem(), now_ms=lambda: 0)
        for epoch in epochs:
            builder = RecordBatchBuilder(0)
            builder.append(0, None, b"v")
            log.append_as_leader(builder.build(), epoch)
        return log

    return made


@pytest.mark.parametrize(
    ("epochs", "answer", "expected"),
    [
        ([0, 0, 0], (0, 2), Truncation(2, True)),  # it ends earlier in the leader's log
        ([0, 0, 0], (0, 5), Truncation(3, True)),  # or later
        ([0, 1, 1], (0, 1), Truncation(1, True)),  # the leader never had epoch 1
        ([0, 2, 2], (1, 2), Truncation(1, False)),  # nor we its epoch 1: ask about epoch 0 then
        ([3, 3], (1, 5), Truncation(0, True)),  # nothing that old
        ([0, 0], (-1, -1), Truncation(0, True)),  # it knows nothing: back to the high watermark
        ([0, 0], (-1, 1), Truncation(1, True)),  # a leader that tells no epochs
    ],
)
def test_truncation(make, epochs, answer, expected):
    assert truncation_for(make(epochs), *answer) == expected


def are_possible(one, other):
    """An epoch has one leader: where both logs have it, they had been the same before it."""
    return all(one[: one.index(epoch)] == other[: other.index(epoch)] for epoch in set(one) & set(other))


def test_any_two_histories_truncate_to_their_common_prefix(make):
    """Asked again until final, as a follower does, whatever epochs the two logs have had."""
    histories = [epochs for length in range(1, 5) for epochs in itertools.product(range(3), repeat=length)]
    histories = [epochs for epochs in histories if list(epochs) == sorted(epochs)]
    for ours, leaders in itertools.product(histories, repeat=2):
        if not are_possible(ours, leaders):
            continue
        log, leader = make(ours), make(leaders)
        leader.leader_epochs.assign(9, leader.log_end_offset)  # the epoch that it leads in
        while log.leader_epochs.latest_epoch >= 0:
            truncation = truncation_for(log, *leader.end_offset_for_epoch(log.leader_epochs.latest_epoch))
            log.truncate_to(truncation.offset)
            if truncation.is_final:
                break
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ours, leaders, strict=False)))
        assert log.log_end_offset == common, (ours, leaders)
        log.release()
        leader.release()
