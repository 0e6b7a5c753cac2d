"""Transactions against our broker: what readers of committed data see, zombies, and brokers that die in the middle."""

import asyncio
import itertools

import pytest

from client.admin.admin import Admin
from client.consumer.group_metadata import ConsumerGroupMetadata
from client.consumer.reader import Reader
from client.errors import (
    IllegalGenerationError,
    KafkaError,
    ProducerFencedError,
    UnknownMemberIdError,
)
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import BrokerProcess, running_broker
from support.cluster import broker_cluster
from support.deadlines import DEADLINE_S
from support.polling import until

_NUMBERS = itertools.count(1)


@pytest.fixture
async def topic(broker):
    """Of two partitions."""
    name = f"transactions-{next(_NUMBERS)}"
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topic(name, partitions=2)
    return name


def producer(servers, transactional_id, **options):
    return Producer(bootstrap_servers=servers, transactional_id=transactional_id, **options)


async def committed(servers, topic, partitions=(0, 1), isolation_level="read_committed"):
    """The values up to the end that readers of this isolation level are told, by partition."""
    names = [TopicPartition(topic, partition) for partition in partitions]
    found = {name: [] for name in names}
    async with (
        Reader(bootstrap_servers=servers, isolation_level=isolation_level) as reader,
        asyncio.timeout(DEADLINE_S),
    ):
        ends = await reader.end_offsets(names)
        reader.assign(dict.fromkeys(names, 0))
        while any(reader.position(name) < ends[name] for name in names):
            for record in await reader.fetch(timeout_ms=100):
                found[TopicPartition(record.topic, record.partition)].append(record.value)
    return [found[name] for name in names]


async def offsets(servers, group):
    async with Admin(bootstrap_servers=servers) as admin:
        return {name: one.offset for name, one in (await admin.list_group_offsets(group)).items()}


async def until_offsets(servers, group, wanted):
    """The marker comes to the group's partition a moment after the commit is acknowledged."""

    async def there():
        return await offsets(servers, group) == wanted

    await until(there, f"offsets {wanted}")


async def until_committed(servers, topic, wanted):
    async def there():
        return await committed(servers, topic) == wanted

    await until(there, f"records {wanted}")


async def test_aborted_records_are_hidden_from_committed_readers(broker, topic):
    async with producer(broker.bootstrap, f"id-{topic}") as sender:
        for number, commit in enumerate([True, False, True]):
            await sender.begin_transaction()
            for partition in (0, 1):
                await sender.send(topic, b"%d" % number, partition=partition)
            await (sender.commit_transaction() if commit else sender.abort_transaction())
    await until_committed(broker.bootstrap, topic, [[b"0", b"2"]] * 2)
    everything = await committed(broker.bootstrap, topic, isolation_level="read_uncommitted")
    assert everything == [[b"0", b"1", b"2"]] * 2


async def test_an_open_transaction_is_not_visible(broker, topic):
    async with producer(broker.bootstrap, f"id-{topic}") as sender:
        await sender.begin_transaction()
        await sender.send(topic, b"x", partition=0)
        assert await committed(broker.bootstrap, topic) == [[], []]
        await sender.commit_transaction()
        await until_committed(broker.bootstrap, topic, [[b"x"], []])


async def test_a_zombie_is_fenced(broker, topic):
    async with producer(broker.bootstrap, f"id-{topic}") as old:
        await old.begin_transaction()
        await old.send(topic, b"zombie", partition=0)
        async with producer(broker.bootstrap, f"id-{topic}") as new:
            with pytest.raises(ProducerFencedError):
                await old.commit_transaction()
            with pytest.raises(ProducerFencedError):
                await old.begin_transaction()
            with pytest.raises(ProducerFencedError):
                await old.send(topic, b"zombie")
            async with new.transaction():
                await new.send(topic, b"kept", partition=0)
    await until_committed(broker.bootstrap, topic, [[b"kept"], []])


@pytest.mark.parametrize("what", ["send", "send_offsets", "begin"])
async def test_a_zombie_is_fenced_in_every_call(broker, topic, what):
    async with producer(broker.bootstrap, f"id-{topic}") as old:
        if what != "begin":
            await old.begin_transaction()
        async with producer(broker.bootstrap, f"id-{topic}"):
            with pytest.raises(ProducerFencedError):
                await zombie_goes_on(old, topic, what)


async def zombie_goes_on(old, topic, what):
    if what == "send_offsets":
        await old.send_offsets({TopicPartition(topic, 0): 1}, f"group-{topic}")
    elif what == "send":
        await old.send(topic, b"zombie", partition=0)
    else:
        async with old.transaction():
            old.send_nowait(topic, b"zombie", partition=0)


async def test_a_timed_out_transaction_is_aborted(tmp_path):
    settings = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
    async with running_broker(tmp_path / "data", **settings) as broker:
        servers = broker.bootstrap_servers
        async with producer(servers, "slow", transaction_timeout_ms=100) as sender:
            await sender.begin_transaction()
            await sender.send("t", b"x")

            async def is_aborted():
                async with Admin(bootstrap_servers=servers) as admin:
                    return (await admin.describe_transaction("slow")).state == "CompleteAbort"

            await until(is_aborted, "the coordinator aborts it")
            with pytest.raises(KafkaError) as caught:
                await sender.commit_transaction()
            assert caught.value.code.name in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
        assert await committed(servers, "t", (0,)) == [[]]


@pytest.mark.parametrize(
    ("group", "error"),
    [
        (ConsumerGroupMetadata("group", 3, "nobody"), UnknownMemberIdError),
        (ConsumerGroupMetadata("group", 3), IllegalGenerationError),
    ],
)
async def test_offsets_of_an_unknown_member_abort_the_transaction(broker, topic, group, error):
    async with producer(broker.bootstrap, f"id-{topic}") as sender:
        with pytest.raises((error, UnknownMemberIdError)):
            await send_with_offsets(sender, topic, {TopicPartition(topic, 0): 1}, group)
        await send_with_offsets(sender, topic, {TopicPartition(topic, 0): 2}, f"group-{topic}")
    await until_offsets(broker.bootstrap, f"group-{topic}", {TopicPartition(topic, 0): 2})
    await until_committed(broker.bootstrap, topic, [[], [b"x"]])


async def send_with_offsets(sender, topic, wanted, group):
    async with sender.transaction():
        await sender.send(topic, b"x", partition=1)
        await sender.send_offsets(wanted, group)


async def test_read_process_write_exactly_once(broker, topic):
    """One producer after the other takes over where the committed offset is, and gives up at some point."""
    servers, source, target, group = broker.bootstrap, TopicPartition(topic, 0), TopicPartition(topic, 1), f"g-{topic}"
    async with Producer(bootstrap_servers=servers) as sender:
        for number in range(60):
            sender.send_nowait(topic, b"%d" % number, partition=0)
        await sender.flush()
    done = 0
    for life in itertools.count():
        async with (
            producer(servers, f"transfer-{topic}") as sender,
            Reader(bootstrap_servers=servers, fetch_max_wait_ms=50) as reader,
        ):
            done = (await offsets(servers, group)).get(source, 0)  # nothing is pending: what was open is aborted
            if done == 60:
                break
            reader.assign({source: done})
            for step in range(1 + life % 3):
                records = [record for record in await reader.fetch(timeout_ms=1000) if record.offset < done + 7][:7]
                if not records:
                    break
                await sender.begin_transaction()
                for record in records:
                    sender.send_nowait(topic, record.value, partition=target.partition)
                await sender.send_offsets({source: records[-1].offset + 1}, group)
                if step == 2:
                    await sender.abort_transaction()
                elif step == 1:
                    await sender.flush()
                    break  # the producer ends with its transaction open
                else:
                    await sender.commit_transaction()
                done = records[-1].offset + 1
                reader.seek(source, done)
    assert done == 60
    await until_committed(servers, topic, [[b"%d" % number for number in range(60)]] * 2)


# -- brokers that die -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("when", ["before the records", "with records under way", "before the end", "during the end"])
async def test_the_broker_is_killed(tmp_path, when, commit):
    with BrokerProcess(tmp_path / "data") as process:
        options = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50}
        async with producer(process.bootstrap, "id", **options) as sender:
            async with sender.transaction():
                await sender.send("t", b"first", partition=0)

            async def restart():
                await asyncio.to_thread(process.kill)
                await asyncio.to_thread(process.start)

            await sender.begin_transaction()
            if when == "before the records":
                await restart()
            futures = [sender.send_nowait("t", b"%d" % number, partition=0) for number in range(3)]
            if when == "with records under way":
                await asyncio.sleep(0)
                await restart()
            await asyncio.gather(*futures)
            if when == "before the end":
                await restart()
            ending = asyncio.ensure_future(sender.commit_transaction() if commit else sender.abort_transaction())
            if when == "during the end":
                await asyncio.sleep(0)
                await restart()
            await ending
            async with sender.transaction():
                await sender.send("t", b"last", partition=0)

        async def there():
            middle = [b"0", b"1", b"2"] if commit else []
            return await committed(process.bootstrap, "t", (0,)) == [[b"first", *middle, b"last"]]

        await until(there, "what was committed")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", [False, True], ids=["abort", "commit"])
async def test_the_coordinator_is_killed(tmp_path, end):
    """Between the records and the end, of three brokers: another one coordinates, and ends what the first began."""
    replicated = {
        "transaction_state_log_replication_factor": "3",
        "transaction_state_log_min_isr": "2",
        "offsets_topic_replication_factor": "3",
    }
    async with broker_cluster(tmp_path, 3, **replicated) as cluster:
        await cluster.create_topic("t", {0: (0, 1, 2), 1: (1, 2, 0)})
        async with producer(cluster.bootstrap(), "id", max_block_ms=120_000) as sender:
            await sender.begin_transaction()
            await asyncio.gather(*(sender.send("t", b"x", partition=partition) for partition in (0, 1)))
            await sender.send_offsets({TopicPartition("t", 0): 5}, "group")
            async with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
                first = (await admin.describe_transaction("id")).coordinator
            await cluster.kill_and_expire(first)
            await (sender.commit_transaction() if end else sender.abort_transaction())
            async with sender.transaction():
                await asyncio.gather(*(sender.send("t", b"y", partition=partition) for partition in (0, 1)))
        left = cluster.bootstrap(*(one for one in range(3) if one != first))
        await until_committed(left, "t", [[b"x", b"y"] if end else [b"y"]] * 2)
        await until_offsets(left, "group", {TopicPartition("t", 0): 5} if end else {})
