"""What librdkafka tells of batches that were there already is no offset."""

from support.delivered import Delivered


class Message:
    def __init__(self, offset, partition=0):
        self._offset, self._partition = offset, partition

    def topic(self):
        return "t"

    def partition(self):
        return self._partition

    def offset(self):
        return self._offset


def offsets(*told):
    delivered = Delivered()
    return [delivered.offset(Message(each)) for each in told]


def test_offsets_of_brokers():
    assert offsets(0, 1, 2, 7, 8) == [0, 1, 2, 7, 8]


def test_offsets_that_were_counted_up_from_none():
    assert offsets(5, None, 0, 1, 9, 10) == [5, None, None, None, 9, 10]
    assert offsets(-1, -1, 0, 1) == [None, None, None, None]


def test_each_partition_is_counted_separately():
    delivered = Delivered()
    told = [(None, 0), (0, 1), (0, 0), (1, 1), (1, 0)]
    assert [delivered.offset(Message(*each)) for each in told] == [None, 0, None, 1, None]
