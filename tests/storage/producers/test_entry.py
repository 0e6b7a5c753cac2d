"""What one producer may write next in a partition, and which of its batches are known or may be in the log."""

import pytest

from storage.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError
from storage.producers.entry import BatchMetadata, ProducerEntry

LAST = 2**31 - 1
"""The last sequence number, after which comes 0."""


def entry(*batches, epoch=3, has_forgotten=False):
    """A producer that has written batches of two records, each of which ends with a sequence number."""
    made = ProducerEntry(7)
    for number, last in enumerate(batches):
        made.add_batch(epoch, BatchMetadata(last, 10 + 2 * number, 1, 1000 + number))
    made.has_forgotten = has_forgotten
    return made


def test_the_last_five_batches_are_duplicates_with_exactly_their_sequence_numbers():
    known = entry(1, 3, 5, 7, 9, 11)
    assert [known.find_duplicate(3, last - 1, last) is not None for last in (1, 3, 5, 11, 13)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert known.find_duplicate(3, 2, 3).first_offset == 11
    assert known.find_duplicate(3, 3, 3) is None
    assert known.find_duplicate(3, 2, 2) is None
    assert known.find_duplicate(2, 2, 3) is None


@pytest.mark.parametrize(
    ("epoch", "first_sequence", "is_next"),
    [(3, 4, True), (3, 3, False), (3, 5, False), (3, 0, False), (4, 0, True), (4, 4, False)],
)
def test_a_batch_follows_the_last_one_or_begins_an_epoch(epoch, first_sequence, is_next):
    known = entry(1, 3)
    if is_next:
        known.check_sequence(epoch, first_sequence, 99)
    else:
        with pytest.raises(OutOfOrderSequenceError, match="99"):
            known.check_sequence(epoch, first_sequence, 99)


def test_after_the_last_sequence_number_comes_0():
    known = entry(LAST)
    known.check_sequence(3, 0, 99)
    with pytest.raises(OutOfOrderSequenceError):
        known.check_sequence(3, 1, 99)
    wrapped = BatchMetadata(1, 20, 3, 0)
    assert (wrapped.first_sequence, wrapped.first_offset) == (LAST - 1, 17)


def test_an_unknown_producer_may_begin_anywhere():
    ProducerEntry(7).check_sequence(0, 5, 99)


def test_after_a_marker_of_a_new_epoch_it_begins_with_0():
    known = entry(1, 3)
    known.end_transaction(4, 2, 5000)
    assert (known.last_sequence, known.last_data_offset, known.coordinator_epoch) == (-1, -1, 2)
    known.check_sequence(4, 0, 99)
    with pytest.raises(OutOfOrderSequenceError):
        known.check_sequence(4, 4, 99)


def test_an_old_epoch_is_fenced():
    known = entry(1)
    known.check_epoch(3, 99)
    known.check_epoch(4, 99)
    with pytest.raises(InvalidProducerEpochError, match="epoch of producer 7 at offset 99 is 2"):
        known.check_epoch(2, 99)


def test_an_open_transaction_takes_no_other_batches():
    known = entry(1)
    known.check_transactional(False, 99)
    known.current_txn_first_offset = 0
    known.check_transactional(True, 99)
    with pytest.raises(InvalidTxnStateError, match="producer 7 at offset 99"):
        known.check_transactional(False, 99)


@pytest.mark.parametrize(
    ("epoch", "last_sequence", "may_have"),
    [
        (3, 7, True),
        (3, 0, True),
        (3, LAST, True),
        (3, 8, False),
        (3, 9, False),
        (3, 11, False),
        (2, 7, False),
        (4, 7, False),
    ],
)
def test_batches_before_those_of_a_snapshot_may_be_in_the_log(epoch, last_sequence, may_have):
    """Sequence numbers count in a circle: what is behind by less than half of it is before."""
    assert entry(9, has_forgotten=True).may_have_forgotten(epoch, last_sequence) is may_have
    assert not entry(9).may_have_forgotten(epoch, last_sequence)


def test_without_batches_nothing_is_forgotten():
    assert not entry(has_forgotten=True).may_have_forgotten(-1, 0)


def test_what_the_log_has_is_known_again_up_to_five_batches():
    known = entry(9, 11, has_forgotten=True)
    known.recall([BatchMetadata(last, last, 1, 0) for last in (1, 3, 5, 7)])
    assert [batch.last_sequence for batch in known.batches] == [3, 5, 7, 9, 11]
    assert not known.has_forgotten
    full = entry(1, 3, 5, 7, 9)
    full.recall([BatchMetadata(-1, 0, 0, 0)])
    assert [batch.last_sequence for batch in full.batches] == [1, 3, 5, 7, 9]


def test_what_is_forgotten_does_not_matter_after_five_batches_or_a_new_epoch():
    known = ProducerEntry.from_snapshot(entry(1).to_snapshot())
    assert known.has_forgotten
    for last in (3, 5, 7, 9):
        known.add_batch(3, BatchMetadata(last, last, 1, 0))
        assert known.has_forgotten
    known.add_batch(3, BatchMetadata(11, 11, 1, 0))
    assert not known.has_forgotten
    known = ProducerEntry.from_snapshot(entry(1).to_snapshot())
    known.add_batch(4, BatchMetadata(1, 11, 1, 0))
    assert not known.has_forgotten
    assert [batch.last_offset for batch in known.batches] == [11]


def test_a_snapshot_has_the_last_batch():
    known = entry(1, 3)
    known.current_txn_first_offset = 9
    read = ProducerEntry.from_snapshot(known.to_snapshot())
    assert read.batches == known.batches[-1:]
    assert (read.producer_id, read.producer_epoch, read.last_timestamp) == (7, 3, 1001)
    assert read.current_txn_first_offset == 9
    assert ProducerEntry.from_snapshot(ProducerEntry(7).to_snapshot()).batches == []
