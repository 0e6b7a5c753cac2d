"""A coordinator whose log cannot be read for a while serves its keys as soon as it can."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from storage.file_system import FileSystem
from support.broker import settings
from support.groups import commit, fetch_offsets, find_group
from support.polling import until
from support.transactions import TransactionalProducer
from support.wire import create_topic, wire_client


class UnreadableRecords(FileSystem):
    """Files whose records cannot be read: the reads that leave the event loop fail. Others look only where records lie.

    `unreadable`: path → errno.
    """

    def __init__(self):
        super().__init__()
        self.unreadable = {}

    def pread(self, fd, length, position):
        if self.unreadable and threading.current_thread() is not threading.main_thread():
            number = self.unreadable.get(Path(f"/proc/self/fd/{fd}").readlink())
            if number is not None:
                raise OSError(number, os.strerror(number))
        return FileSystem.pread(fd, length, position)


LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
async def broker(tmp_path):
    one_partition_each = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    config = BrokerConfig.load(None, settings(tmp_path / "data", **one_partition_each))
    async with Broker(config, fs=UnreadableRecords()) as broker:
        yield broker


@pytest.fixture
async def client(broker):
    async with wire_client(broker.bootstrap_servers) as client:
        yield client


@contextlib.asynccontextmanager
async def elected_while_unreadable(broker, log, number, caplog):
    """The broker is elected leader of the log's partition 0 again, and cannot read it until the block ends."""
    fs, directory = broker.services.logs.fs, broker.services.logs.get(log.topic, 0).directory
    log._role_changed(0, False)
    fs.unreadable[directory / f"{0:020}.log"] = number
    log._role_changed(0, True)
    await until(lambda: f"{log.topic}-0 cannot be loaded" in caplog.text, "the first attempt fails")
    yield
    fs.unreadable.clear()


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
async def test_offsets_are_served_when_their_log_becomes_readable(broker, client, caplog, number):
    await find_group(client.call, "g")
    await create_topic(client, "t")
    assert await commit(client.call, "g", "t", 17) == 0

    async def fetched():
        return await fetch_offsets(client.call, "g", "t", 0)

    before = await fetched()
    log = broker.services.coordination.group_log
    async with elected_while_unreadable(broker, log, number, caplog):
        assert (await fetched())[0] == LOADING
    await until(lambda: not broker.services.coordination.groups._partitions.is_loading, "the log is read")
    assert await fetched() == before


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
async def test_transactions_are_served_when_their_log_becomes_readable(broker, client, caplog, number):
    await create_topic(client, "t")
    producer = TransactionalProducer(client.call, "x")
    await producer.begin()
    await producer.write("t", b"v")

    async def described():
        answer = await client.call(DescribeTransactionsRequest(transactional_ids=["x"]), 0)
        return answer.transaction_states[0].error_code

    log = broker.services.coordination.transaction_log
    async with elected_while_unreadable(broker, log, number, caplog):
        assert await described() == LOADING
    await producer.ended(True)


async def test_an_unreadable_log_does_not_delay_other_logs(tmp_path, caplog):
    config = BrokerConfig.load(None, settings(tmp_path / "data", offsets_topic_num_partitions="2"))
    async with Broker(config, fs=UnreadableRecords()) as broker, wire_client(broker.bootstrap_servers) as client:
        log = broker.services.coordination.group_log
        await find_group(client.call, "g")
        await create_topic(client, "t")
        groups = {log.partition_for(name): name for name in ("g", "h", "i", "j")}
        assert groups.keys() == {0, 1}
        for name in groups.values():
            await find_group(client.call, name)
            assert await commit(client.call, name, "t", 17) == 0
        log._role_changed(1, False)
        async with elected_while_unreadable(broker, log, errno.EIO, caplog):
            log._role_changed(1, True)
            await find_group(client.call, groups[1])
        await find_group(client.call, groups[0])
