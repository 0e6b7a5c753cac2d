"""`ottla transactions` with librdkafka's transactions, and with one that hangs."""

import asyncio
import itertools
import re
import time

import pytest
from confluent_kafka import KafkaException, Producer

from client.admin.admin import Admin
from support.deadlines import DEADLINE_S
from support.hanging import HANGING_EPOCH, HANGING_ID, write_hanging
from support.json_fields import not_printed, printed_fields

numbers = itertools.count(1)
MINUTE_MS = 60_000


@pytest.fixture
def topic(on):
    name = f"transacted{next(numbers)}"
    on("topics", "create", name, "--partitions", 2)
    return name


def producer_with_a_transaction(broker, topic):
    """A producer with a transaction open in partition 0, one record before it."""
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"id of {topic}"})
    made.init_transactions(DEADLINE_S)
    made.begin_transaction()
    made.produce(topic, b"first", partition=0)
    made.commit_transaction(DEADLINE_S)
    made.begin_transaction()
    made.produce(topic, b"second", partition=0)
    made.flush(DEADLINE_S)
    return made


@pytest.fixture
def producer(broker, topic):
    """Such a producer, whose transaction ends after the test."""
    made = producer_with_a_transaction(broker, topic)
    yield made
    made.abort_transaction(DEADLINE_S)


@pytest.fixture
def hanging(on, broker, topic):
    """A transaction in partition 1 that no coordinator knows of, half an hour old. Brokers of before 3.6 let it come
    about; so does one that does not verify partitions (KIP-890).
    """
    verification = "transaction.partition.verification.enable"
    on("configs", "alter", "--broker", 0, "-s", f"{verification}=false")
    asyncio.run(write_hanging(broker.bootstrap, topic))
    on("configs", "alter", "--broker", 0, "-d", verification)
    return f"{topic}-1"


def committed(on, topic, partition):
    words = ("--partition", partition, "--isolation-level", "read_committed", "--format", "%s ")
    return on("consume", topic, *words).out.split()


def test_list_and_describe(on, topic, producer):
    name = f"id of {topic}"
    printed = on("transactions", "list", "--json")
    assert not_printed("transactions list", printed_fields(printed.out)) == []
    listed = {entry["transactional_id"]: entry for entry in printed.json}
    assert listed[name]["state"] == "Ongoing"
    assert listed[name]["coordinator"] == 0
    before_ms = time.time_ns() // 1_000_000
    described = on("transactions", "describe", name, "--json")
    assert not_printed("transactions describe", printed_fields(described.out)) == []
    (found,) = described.json
    assert (found["state"], found["producer_id"]) == ("Ongoing", listed[name]["producer_id"])
    assert (found["coordinator"], found["timeout_ms"]) == (0, MINUTE_MS)
    assert found["partitions"] == [{"topic": topic, "partition": 0}]
    assert found["start_time_ms"] <= before_ms
    assert 0 <= found["duration_ms"] < 10 * MINUTE_MS
    text = on("transactions", "describe", name).out
    assert re.search(rf"^partitions +{topic}-0 *$", text, flags=re.MULTILINE)
    assert name in on("transactions", "list").out


def test_filters(on, topic, producer):
    name = f"id of {topic}"
    (found,) = on("transactions", "describe", name, "--json").json

    def names(*words):
        return [entry["transactional_id"] for entry in on("transactions", "list", "--json", *words).json]

    assert name in names("--state", "ongoing", "--state", "Empty")
    assert name not in names("--state", "CompleteCommit")
    assert names("--producer-id", found["producer_id"]) == [name]
    assert name not in names("--longer-than-ms", 10 * MINUTE_MS)
    assert name in names("--longer-than-ms", 0)


def test_describe_producers(on, topic, producer):
    described = on("transactions", "describe-producers", f"{topic}-0", "--json")
    assert not_printed("transactions describe-producers", printed_fields(described.out)) == []
    (found,) = described.json
    assert found["current_transaction_start_offset"] == 2  # after a record and the marker of its commit
    assert (found["last_sequence"], found["coordinator_epoch"]) == (1, 0)
    assert on("transactions", "describe-producers", f"{topic}-0", "--json", "--broker-id", 0).json == [found]
    assert on("transactions", "describe-producers", f"{topic}-1", "--json").json == []
    header, row = on("transactions", "describe-producers", f"{topic}-0").out.splitlines()
    assert header.split()[-2:] == ["transaction", "start"]
    assert row.split()[-1] == "2"


def test_a_hanging_transaction_is_found_and_aborted(on, topic, producer, hanging):
    on("produce", topic, "--partition", 1, "--quiet", stdin=b"behind\n")
    assert committed(on, topic, 1) == []
    printed = on("transactions", "find-hanging", "--json")
    assert not_printed("transactions find-hanging", printed_fields(printed.out)) == []
    (found,) = printed.json
    assert f"{found['topic']}-{found['partition']}" == hanging
    assert (found["producer_id"], found["current_transaction_start_offset"]) == (HANGING_ID, 0)
    assert found["coordinator_epoch"] is None
    assert on("transactions", "find-hanging", "--max-transaction-timeout", 60, "--json").json == []
    # One that is open, as its coordinator knows, is none of them.
    youngest = on("transactions", "find-hanging", "-t", topic, "--max-transaction-timeout", 0, "--json").json
    assert [one["partition"] for one in youngest] == [1]
    assert on("transactions", "find-hanging", "--broker-id", 0).out.splitlines()[1].split()[:4] == [
        hanging, str(HANGING_ID), str(HANGING_EPOCH), "0",
    ]  # fmt: skip
    missed = on("transactions", "abort", hanging, "--start-offset", 1, code=1).err
    assert f"{hanging} has no open transaction that starts at 1; its open transactions start at 0" in missed
    done = on("transactions", "abort", hanging, "--start-offset", 0)
    assert done.out == f"transaction of producer {HANGING_ID} aborted in {hanging}\n"
    assert on("transactions", "find-hanging", "--json").json == []
    assert committed(on, topic, 1) == ["behind"]
    assert [row["state"] for row in on("transactions", "describe", f"id of {topic}", "--json").json] == ["Ongoing"]


@pytest.mark.parametrize("epoch", [(), ("--coordinator-epoch", 0)])
def test_abort_by_producer(on, topic, hanging, epoch):
    words = ("transactions", "abort", hanging, "--producer-id", HANGING_ID, "--producer-epoch")
    assert "INVALID_PRODUCER_EPOCH" in on(*words, HANGING_EPOCH - 1, *epoch, code=1).err
    assert len(on("transactions", "find-hanging", "-t", topic, "--json").json) == 1
    on(*words, HANGING_EPOCH, *epoch)
    assert on("transactions", "find-hanging", "-t", topic, "--json").json == []
    (found,) = on("transactions", "describe-producers", hanging, "--json").json
    assert found["coordinator_epoch"] == 0


def test_a_producer_is_fenced_and_its_transaction_aborted(on, broker, topic):
    name = f"id of {topic}"
    fenced = producer_with_a_transaction(broker, topic)
    (before,) = on("transactions", "describe", name, "--json").json
    done = on("transactions", "fence", name)
    (after,) = on("transactions", "describe", name, "--json").json
    assert done.out == f"{name} fenced: producer {after['producer_id']}, epoch {after['producer_epoch']} from now on\n"
    assert after["producer_epoch"] > before["producer_epoch"]
    assert (after["state"], after["partitions"]) == ("Empty", [])
    on("produce", topic, "--partition", 0, "--quiet", stdin=b"behind\n")
    assert committed(on, topic, 0) == ["first", "behind"]
    with pytest.raises(KafkaException) as caught:
        fenced.commit_transaction(DEADLINE_S)
    assert caught.value.args[0].fatal()


def test_an_unknown_id_is_not_created_by_fencing_it(on, topic, producer):
    wrong = f"id  of {topic}"
    refused = on("transactions", "fence", f"id of {topic}", wrong, code=1)
    assert f"unknown transactional id id of {topic} (did you mean id of {topic}" in refused.err
    listed = {one["transactional_id"]: one["state"] for one in on("transactions", "list", "--json").json}
    assert wrong not in listed
    assert listed[f"id of {topic}"] == "Ongoing"


async def test_unknown_ids_each_have_their_error(broker):
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        found = await admin.describe_transactions(["no such id", "nor this one"])
    assert [type(error).__name__ for error in found.values()] == ["TransactionalIdNotFoundError"] * 2


def test_errors(on, topic, producer, monkeypatch):
    partition = f"{topic}-0"
    for words, clue in [
        (("list", "--state", "Sleeping"), "--state 'Sleeping' must be one of Empty, Ongoing"),
        (("describe", f"id  of {topic}"), f"unknown transactional id id of {topic} (did you mean id of {topic}"),
        (("describe-producers", topic), "is not a partition such as orders-0"),
        (("describe-producers", f"{topic}-2"), f"topic {topic} has partitions 0 to 1, not 2"),
        (("describe-producers", f"{topic}x-0"), f"unknown topic {topic}x (did you mean {topic}"),
        (("describe-producers", partition, "--broker-id", 7), "broker_id=7: the cluster has no such broker"),
        (("find-hanging", "--topic", f"{topic}x"), f"unknown topic {topic}x"),
        (("abort", partition), "give --start-offset, or --producer-id and --producer-epoch"),
        (("abort", partition, "--producer-id", 1), "give --start-offset, or"),
        (("abort", partition, "--start-offset", 1, "--producer-id", 1), "give --start-offset, or"),
        (("abort", partition, "--start-offset", 1, "--coordinator-epoch", 1), "--coordinator-epoch needs"),
        (("abort", partition, "--producer-id", 99, "--producer-epoch", 0), f"{partition} has no producer 99"),
        (("abort", f"{topic}-1", "--start-offset", 0), "that starts at 0, and no other"),
    ]:
        assert clue in on("transactions", *words, code=1).err
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "127.0.0.1:1")
    for words in (("list",), ("describe", "x"), ("fence", "x"), ("abort", partition, "--start-offset", 0)):
        assert "no broker answers at 127.0.0.1:1" in on("transactions", *words, code=1).err
