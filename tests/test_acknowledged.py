"""What a compacted partition must hold of acknowledged records, also where an acknowledgement told no offset."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from support.acknowledged import check_compacted

WHERE = ("compacted", 0)


def load(promised, implied=()):
    """A producer named p: the even of its records have the key `even`, the others `odd`."""
    return SimpleNamespace(
        name="p",
        acknowledged=defaultdict(dict, {WHERE: promised}),
        implied=defaultdict(set, {WHERE: set(implied)}),
        sent={WHERE: {number: b"odd" if number % 2 else b"even" for number in range(10)}},
    )


def found(records):
    """offset → number of the record."""
    return SimpleNamespace(found={WHERE: {offset: ("p", number) for offset, number in records.items()}})


@pytest.mark.parametrize(
    "records", [{12: 2, 13: 3}, {10: 0, 12: 2, 13: 3}], ids=["compacted", "with one record that is still there"]
)
def test_the_newest_of_each_key_is_enough(records):
    check_compacted(found(records), [load({10: 0, 11: 1, 12: 2, 13: 3})])


def test_an_unacknowledged_record_may_be_the_newest_of_its_key():
    check_compacted(found({11: 1, 12: 2}), [load({10: 0, 11: 1}, implied={2})])


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        ({10: 0, 13: 3}, "the newest of some keys"),
        ({12: 2, 14: 3}, "p$"),
        ({12: 2, 13: 3, 14: 4}, "p$"),
    ],
    ids=["lost", "elsewhere", "invented"],
)
def test_a_lost_or_misplaced_record_is_detected(records, rule):
    with pytest.raises(AssertionError, match=rule):
        check_compacted(found(records), [load({10: 0, 11: 1, 12: 2, 13: 3})])
