"""A sample of a partition: the first records of one batch. The others are not decoded."""

from client.admin.records import LogPiece
from client.topic_partition import TopicPartition
from console.messages.partition_log import PartitionLog
from protocol.message_set import iter_mixed
from support.batches import build, some_rows

BASE, COUNT, WANTED = 100, 50, 10


class OneBatch:
    """An admin client for a log with one batch, whose last bytes are no record: to decode them is an error."""

    def __init__(self):
        frame = build(some_rows(COUNT), BASE)
        frame[-40:] = b"\xff" * 40
        self.piece = LogPiece(list(iter_mixed(bytes(frame))), [], BASE + COUNT, BASE + COUNT, 0)
        self.asked = []

    async def read_log(self, partition, offset, *, max_bytes, read_committed):
        self.asked.append((offset, max_bytes))
        return self.piece


def log_of(admin):
    return PartitionLog(admin, TopicPartition("orders", 0), shows_all=False, piece_bytes=1000, max_bytes=1000)


async def test_the_first_records_of_a_batch():
    admin = OneBatch()
    found = await log_of(admin).batch(WANTED, BASE + COUNT - 1, BASE + COUNT)
    assert [one.offset for one in found.records] == [*range(BASE, BASE + WANTED)]
    assert not any(one.error for one in found.records)
    assert admin.asked == [(BASE + COUNT - 1, 1)]


async def test_all_records_of_a_batch_that_cannot_be_read():
    found = await log_of(OneBatch()).batch(COUNT, BASE, BASE + COUNT)
    assert found.records[-1].error is not None
