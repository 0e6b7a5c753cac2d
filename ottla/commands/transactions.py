"""`ottla transactions`: show transactions as coordinators and partitions know them, and end them.

Coordinators abort those that they know, and fence their producers. Hanging ones are aborted in their partitions.
"""

import time
from typing import Annotated, Any

import typer

from client.admin.hanging_transactions import find_hanging
from client.admin.types import ActiveProducer, TransactionDescription
from client.errors import ConcurrentTransactionsError, KafkaError, TransactionalIdNotFoundError
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.completion import (
    complete_brokers,
    complete_partitions,
    complete_topics,
    complete_transactional_ids,
)
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_names, parse_partition
from ottla.command_line.output import print_described, print_json, print_table
from ottla.command_line.session import check_partition, describe_topics, run

transactions = typer.Typer(
    help="Show transactions, their producers and partitions, fence producers, and abort hanging ones.",
    no_args_is_help=True,
)

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_MS_PER_MINUTE = 60_000

Names = Annotated[
    list[str],
    typer.Argument(help="Transactional ids.", metavar="TRANSACTIONAL_ID", autocompletion=complete_transactional_ids),
]
Partition = Annotated[
    str,
    typer.Argument(
        help="The partition, such as orders-0.", metavar="TOPIC-PARTITION", autocompletion=complete_partitions
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(transactions, name="transactions")


@transactions.command("list", epilog="Example:  ottla transactions list --state Ongoing --longer-than-ms 60000")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", metavar="STATE", help="Only transactions in this state. Repeatable."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", min=0, help="Only transactions of this producer id. Repeatable."),
    ] = None,
    longer_than_ms: Annotated[
        int | None, typer.Option("--longer-than-ms", min=0, help="Only transactions open for longer.")
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the transactional ids of the cluster."""
    states = parse_names(state or (), STATES, "--state")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await admin.list_transactions(
                states=states,
                producer_ids=producer_id or (),
                longer_than_ms=-1 if longer_than_ms is None else longer_than_ms,
            )
        if as_json:
            keys = ("transactional_id", "producer_id", "state", "coordinator")
            print_json([dict(zip(keys, listing, strict=True)) for listing in found])
            return
        rows = [(one.transactional_id, one.state, one.producer_id, one.coordinator) for one in found]
        print_table(("transactional id", "state", "producer id", "coordinator"), rows)

    run(main())


@transactions.command(epilog="Example:  ottla transactions describe billing-1")
def describe(
    names: Names,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show transactional ids as their coordinators know them: producer, state, duration of an open transaction, and its
    partitions.
    """

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            described = [_document(one) for one in await _described(admin, names)]
        print_described(described, _print_transaction, as_json=as_json)

    run(main())


async def _described(admin: Admin, names: list[str]) -> list[TransactionDescription]:
    """Return the descriptions of transactional ids. Raises CommandError if a coordinator does not know one."""
    described = []
    for name, found in (await admin.describe_transactions(names)).items():
        if isinstance(found, TransactionalIdNotFoundError):
            known = [listing.transactional_id for listing in await admin.list_transactions()]
            raise CommandError(f"unknown transactional id {name}{suggest(name, known)}")
        if isinstance(found, KafkaError):
            raise found
        described.append(found)
    return described


def _print_transaction(document: dict[str, Any]) -> None:
    partitions = [f"{one['topic']}-{one['partition']}" for one in document["partitions"]]
    shown = document | {"partitions": " ".join(partitions) or None}
    print_table(("", ""), [(name.replace("_", " "), _shown(value)) for name, value in shown.items()])


def _document(transaction: TransactionDescription) -> dict[str, Any]:
    is_open = transaction.state in _OPEN and transaction.start_time_ms >= 0
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "coordinator": transaction.coordinator,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_time_ms": transaction.start_time_ms if is_open else None,
        "duration_ms": _now_ms() - transaction.start_time_ms if is_open else None,
        "partitions": [partition._asdict() for partition in transaction.partitions],
    }


def _shown(value: object) -> object:
    return None if value is None else str(value)  # as text, so that numbers are left-aligned like the words


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@transactions.command(epilog="Example:  ottla transactions fence billing-1")
def fence(names: Names, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """Fence the producers of transactional ids: their open transactions are aborted, and their next call fails.

    A fenced producer that still runs must be started again.
    """

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            await _described(admin, names)  # fencing would create an unknown id
            for name in names:
                try:
                    fenced = (await admin.fence_producers([name]))[name]
                except ConcurrentTransactionsError:
                    raise CommandError(
                        f"the transaction of {name} is not aborted yet: its coordinator waits for the leaders of its "
                        "partitions"
                    ) from None
                if isinstance(fenced, KafkaError):
                    raise fenced
                print(f"{name} fenced: producer {fenced.producer_id}, epoch {fenced.producer_epoch} from now on")

    run(main())


@transactions.command("describe-producers", epilog="Example:  ottla transactions describe-producers orders-0")
def describe_producers(
    name: Partition,
    broker_id: Annotated[
        int | None,
        typer.Option("--broker-id", help="Ask this replica. Default: the leader.", autocompletion=complete_brokers),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the idempotent and transactional producers of a partition, and the start offsets of open transactions."""
    partition = parse_partition(name)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            await _check(admin, partition)
            producers = (await admin.describe_producers([partition], broker_id=broker_id))[partition]
        if as_json:
            print_json([_producer(producer) for producer in producers])
        else:
            print_table(_PRODUCER_COLUMNS, [tuple(_producer(producer).values()) for producer in producers])

    run(main())


_PRODUCER_COLUMNS = ("producer id", "epoch", "last sequence", "last time", "coordinator epoch", "transaction start")


def _producer(producer: ActiveProducer) -> dict[str, int | None]:
    """Return the fields of a producer by name; negative values, which mean none, become None."""
    return {name: None if value < 0 else value for name, value in producer._asdict().items()}


async def _check(admin: Admin, partition: TopicPartition) -> None:
    """Raise CommandError if a partition does not exist."""
    check_partition(await describe_topics(admin, [partition.topic]), partition)


@transactions.command("find-hanging", epilog="Example:  ottla transactions find-hanging --topic orders")
def find_hanging_transactions(
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only in this topic. Repeatable.", autocompletion=complete_topics),
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option("--broker-id", help="Only in replicas of this broker.", autocompletion=complete_brokers),
    ] = None,
    max_transaction_timeout: Annotated[
        int, typer.Option("--max-transaction-timeout", min=0, help="The brokers' longest allowed timeout, in minutes.")
    ] = 15,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Find hanging transactions: open in a partition, but unknown to every coordinator."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await describe_topics(admin, topic)
            partitions = [
                TopicPartition(name, number)
                for name, known in found.items()
                for number, one in known.partitions.items()
                if (one.leader >= 0 if broker_id is None else broker_id in one.replicas)
            ]
            now_ms = _now_ms()
            hanging = await find_hanging(
                admin,
                partitions,
                now_ms=now_ms,
                max_timeout_ms=max_transaction_timeout * _MS_PER_MINUTE,
                broker_id=broker_id,
            )
        documents = [
            {"topic": one.partition.topic, "partition": one.partition.partition, **_producer(one.producer)}
            for one in hanging
        ]
        if as_json:
            print_json(documents)
            return
        rows = [
            (
                one.partition,
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.current_transaction_start_offset,
                (now_ms - one.producer.last_timestamp) // _MS_PER_MINUTE,
            )
            for one in hanging
        ]
        print_table(("partition", "producer id", "epoch", "start offset", "minutes"), rows)

    run(main())


@transactions.command(epilog="Example:  ottla transactions abort orders-0 --start-offset 4711")
def abort(
    name: Partition,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="The offset of the transaction's first record.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, help="The producer of the transaction.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", min=0, max=32767, help="The epoch of that producer.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", help="The epoch of its coordinator. Default: the partition's.")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Abort a hanging transaction in one partition without its coordinator; find-hanging finds such transactions.

    Identify the transaction by its start offset, or by its producer's id and epoch.
    """
    partition = parse_partition(name)
    if (start_offset is None) == (producer_id is None) or (producer_id is None) != (producer_epoch is None):
        raise CommandError("give --start-offset, or --producer-id and --producer-epoch")
    if coordinator_epoch is not None and producer_id is None:
        raise CommandError("--coordinator-epoch needs --producer-id and --producer-epoch")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            await _check(admin, partition)
            if producer_id is not None and producer_epoch is not None and coordinator_epoch is not None:
                # A broker older than 3.0 has no DescribeProducers.
                chosen = (producer_id, producer_epoch, coordinator_epoch)
            else:
                producers = (await admin.describe_producers([partition]))[partition]
                producer = _find(producers, partition, start_offset, producer_id)
                epoch = producer.producer_epoch if producer_epoch is None else producer_epoch
                chosen = (producer.producer_id, epoch, producer.coordinator_epoch)
            await admin.abort_transaction(partition, *chosen[:2], max(chosen[2], 0))
        print(f"transaction of producer {chosen[0]} aborted in {partition}")

    run(main())


def _find(
    producers: list[ActiveProducer],
    partition: TopicPartition,
    start_offset: int | None,
    producer_id: int | None,
) -> ActiveProducer:
    """Return the producer whose open transaction starts at this offset, or with this id. Raises CommandError."""
    for producer in producers:
        if start_offset is not None and producer.current_transaction_start_offset == start_offset:
            return producer
        if start_offset is None and producer.producer_id == producer_id:
            return producer
    if start_offset is None:
        raise CommandError(f"{partition} has no producer {producer_id}")
    starts = [one.current_transaction_start_offset for one in producers if one.current_transaction_start_offset >= 0]
    known = f"; its open transactions start at {', '.join(map(str, starts))}" if starts else ", and no other"
    raise CommandError(f"{partition} has no open transaction that starts at {start_offset}{known}")
