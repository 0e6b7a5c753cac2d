"""Transactions: by state and age, one transactional id, hanging ones, and the end of either.

A hanging transaction is open in a partition, but its coordinator does not know it (KIP-664). The partition's leader
aborts it. The coordinator aborts the others, as if a new producer began with the same transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Final

from pydantic import Field

from client.admin.hanging_transactions import find_hanging
from client.admin.types import ActiveProducer, TransactionDescription
from client.consumer.offsets import LATEST
from client.errors import ConcurrentTransactionsError, KafkaError, TransactionalIdNotFoundError
from client.topic_partition import TopicPartition
from console.rest.call import Call
from console.rest.errors import NOT_AUTHORIZED, RestError, not_found
from console.rest.models import Answer, Asked, Name
from console.rest.operation import ApiOperation, Parameter, Right
from console.watching.observer import now_ms
from console.watching.patience import Problems
from console.watching.snapshot import partitions_of
from security.acls.types import Operation, ResourceType

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
MAX_DESCRIBED: Final = 500
"""Open transactions whose age a list shows."""
MAX_NAMED: Final = 20
"""Partitions that the text about an abort names."""
MAX_PARTITIONS: Final = 20_000
"""Partitions in which one search looks for hanging transactions."""
SEARCH_S: Final = 15.0
DEFAULT_TIMEOUT_MINUTES: Final = 15
"""The default of transaction.max.timeout.ms."""


class TransactionSummary(Answer):
    """A transactional id. `start_time_ms` is null if no transaction is open, or if it is not known."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    start_time_ms: int | None


class Transactions(Answer):
    """The transactional ids of the cluster."""

    transactions: list[TransactionSummary]
    problems: list[str]


class TransactionPartition(Answer):
    """A partition with an open transaction. Offsets are null if they are not known.

    `held_back` is the number of offsets that read_committed consumers cannot read yet.
    """

    topic: str
    partition: int
    start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    held_back: int | None


class TransactionDetails(TransactionSummary):
    """A transactional id as its coordinator knows it, with the partitions that wait for a marker."""

    producer_epoch: int
    timeout_ms: int
    partitions: list[TransactionPartition]
    problems: list[str]


class AbortTransaction(Asked):
    """The producer whose transaction to abort, as it was shown. `dry_run`: only say what would happen."""

    producer_id: Annotated[int, Field(ge=0)]
    producer_epoch: Annotated[int, Field(ge=0, le=32767)]
    dry_run: bool = False


class AbortedTransaction(Answer):
    """What an abort does, or has done."""

    text: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch after the abort: producers with a lower one are fenced."""


class HangingTransaction(Answer):
    """A transaction that is open in a partition, and that no coordinator knows."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class HangingTransactions(Answer):
    """What a search has found."""

    hanging: list[HangingTransaction]
    searched_partitions: int
    problems: list[str]


class AbortHanging(Asked):
    """The hanging transaction to abort, as the search has found it. `dry_run`: only say what would happen."""

    topic: Name
    partition: Annotated[int, Field(ge=0)]
    producer_id: Annotated[int, Field(ge=0)]
    producer_epoch: Annotated[int, Field(ge=0, le=32767)]
    start_offset: Annotated[int, Field(ge=0)]
    dry_run: bool = False


class AbortedHanging(Answer):
    """What an abort does, or has done."""

    text: str
    start_offset: int
    last_stable_offset: int
    high_watermark: int


def _sees(call: Call, transactional_id: str) -> bool:
    return call.rights.sees(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


async def list_transactions(call: Call) -> Transactions:
    """List the transactional ids of all brokers that answer in time, with the start of their open transactions."""
    admin, problems = call.admin, Problems()
    brokers = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
    answers = await problems.of_brokers(
        {one: [one] for one in brokers}, lambda ids: admin.list_transactions(brokers=ids)
    )
    listed = sorted(one for part in answers.values() for one in part if _sees(call, one.transactional_id))
    open_ids = [one.transactional_id for one in listed if one.state in OPEN_STATES][:MAX_DESCRIBED]
    ask = partial(admin.describe_transactions, open_ids)
    described = await problems.bounded(ask, "The start of open transactions") or {}
    return Transactions(
        transactions=[
            TransactionSummary(
                transactional_id=one.transactional_id,
                state=one.state,
                producer_id=one.producer_id,
                coordinator=one.coordinator,
                start_time_ms=_start(described.get(one.transactional_id)),
            )
            for one in listed
        ],
        problems=problems.sentences,
    )


def _start(described: object) -> int | None:
    if not isinstance(described, TransactionDescription) or described.state not in OPEN_STATES:
        return None
    return described.start_time_ms if described.start_time_ms >= 0 else None


async def get_transaction(call: Call) -> TransactionDetails:
    """Describe a transactional id, and how far its open transaction holds back consumers."""
    found = await _described(call)
    problems = Problems()
    seen = [one for one in found.partitions if call.sees_topic(one.topic)]
    ask = partial(_partitions, call, seen, found.producer_id)
    partitions = await problems.bounded(ask, "The leaders of the partitions")
    if partitions is None:
        partitions = [_unknown(one) for one in seen]
    return TransactionDetails(
        transactional_id=found.transactional_id,
        state=found.state,
        producer_id=found.producer_id,
        coordinator=found.coordinator,
        start_time_ms=_start(found),
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        partitions=partitions,
        problems=problems.sentences,
    )


async def _described(call: Call) -> TransactionDescription:
    try:
        return await call.admin.describe_transaction(call.text("transactional_id"))
    except TransactionalIdNotFoundError as error:
        raise not_found(str(error)) from None


async def abort_ongoing_transaction(call: Call) -> AbortedTransaction:
    """Fence the producer of a transactional id and abort its transaction; with dry_run, only say what that does."""
    asked: AbortTransaction = call.asked
    found = await _described(call)
    name, producer_id, epoch = found.transactional_id, found.producer_id, found.producer_epoch
    if (found.state, producer_id, epoch) != ("Ongoing", asked.producer_id, asked.producer_epoch):
        raise RestError(
            409,
            f"{name} has no open transaction of producer {asked.producer_id} (epoch {asked.producer_epoch}) any more: "
            f"it is {found.state}, with producer {producer_id} (epoch {epoch})",
        )
    partitions = _named(call, found.partitions)
    if not asked.dry_run:
        try:
            fenced = (await call.admin.fence_producers([name]))[name]
        except ConcurrentTransactionsError:
            raise RestError(
                503,
                f"The transaction of {name} is not aborted yet: broker {found.coordinator} waits for the leaders of "
                f"{partitions}.",
            ) from None
        if isinstance(fenced, KafkaError):
            raise fenced
        producer_id, epoch = fenced
    fences, aborts = ("fences", "aborts") if asked.dry_run else ("has fenced", "has aborted")
    return AbortedTransaction(
        text=f"The coordinator of {name}, broker {found.coordinator}, {fences} producer {asked.producer_id} (epoch "
        f"{asked.producer_epoch}) and {aborts} its transaction in {partitions}. If the producer still runs, its "
        "next call fails (PRODUCER_FENCED), and it must be started again.",
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def _named(call: Call, partitions: Sequence[TopicPartition]) -> str:
    """Return the names of partitions, as far as the sender may see them."""
    names = [str(one) for one in partitions if call.sees_topic(one.topic)][:MAX_NAMED]
    more = len(partitions) - len(names)
    if more:
        names.append(f"{more} more" if names else f"{more} partition{'' if more == 1 else 's'}")
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "no partition"


async def _partitions(call: Call, names: Iterable[TopicPartition], producer_id: int) -> list[TransactionPartition]:
    wanted = dict.fromkeys(names, LATEST)
    if not wanted:
        return []
    readable = [one for one in wanted if call.rights.sees(Operation.READ, ResourceType.TOPIC, one.topic)]
    producers = await call.admin.describe_producers(readable)
    ends = await call.admin.list_offsets(wanted)
    stable = await call.admin.list_offsets(wanted, read_committed=True)
    starts = {
        name: one.current_transaction_start_offset
        for name, known in producers.items()
        for one in known
        if one.producer_id == producer_id and one.current_transaction_start_offset >= 0
    }
    return [
        TransactionPartition(
            topic=name.topic,
            partition=name.partition,
            start_offset=starts.get(name),
            last_stable_offset=stable[name].offset,
            high_watermark=ends[name].offset,
            held_back=max(0, ends[name].offset - stable[name].offset),
        )
        for name in wanted
    ]


def _unknown(name: TopicPartition) -> TransactionPartition:
    return TransactionPartition(
        topic=name.topic,
        partition=name.partition,
        start_offset=None,
        last_stable_offset=None,
        high_watermark=None,
        held_back=None,
    )


async def find_hanging_transactions(call: Call) -> HangingTransactions:
    """Search all partitions for hanging transactions: older than max_timeout_minutes, and unknown to coordinators."""
    minutes = _minutes(call)
    topics = {
        name: topic
        for name, topic in (await call.topics()).items()
        if call.rights.sees(Operation.READ, ResourceType.TOPIC, name)
    }
    led = (name for name, one in partitions_of(topics) if one.leader >= 0)
    partitions = list(islice(led, MAX_PARTITIONS))
    problems = Problems()
    search = partial(find_hanging, call.admin, partitions, now_ms=now_ms(), max_timeout_ms=minutes * 60_000)
    found = await problems.bounded(search, "The search", SEARCH_S)
    return HangingTransactions(
        hanging=[_hanging(one.partition, one.producer) for one in found or ()],
        searched_partitions=0 if found is None else len(partitions),
        problems=problems.sentences,
    )


def _minutes(call: Call) -> int:
    text = call.query.get("max_timeout_minutes", str(DEFAULT_TIMEOUT_MINUTES))
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        raise RestError(400, f"max_timeout_minutes must be a number of minutes, not {text!r}")
    return int(text)


def _hanging(name: TopicPartition, producer: ActiveProducer) -> HangingTransaction:
    return HangingTransaction(
        topic=name.topic,
        partition=name.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        start_offset=producer.current_transaction_start_offset,
        last_timestamp_ms=producer.last_timestamp,
    )


async def abort_hanging_transaction(call: Call) -> AbortedHanging:
    """Abort a hanging transaction in its partition, without its coordinator; with dry_run, only say what it does."""
    asked: AbortHanging = call.asked
    name = TopicPartition(asked.topic, asked.partition)
    if not call.rights.sees(Operation.READ, ResourceType.TOPIC, asked.topic):
        raise RestError(403, f"READ on Topic {asked.topic} is not allowed", NOT_AUTHORIZED)
    producer = _same(asked, (await call.admin.describe_producers([name]))[name])
    stable = (await call.admin.list_offsets({name: LATEST}, read_committed=True))[name].offset
    end = (await call.admin.list_offsets({name: LATEST}))[name].offset
    if not asked.dry_run:
        epoch = max(producer.coordinator_epoch, 0)
        await call.admin.abort_transaction(name, producer.producer_id, producer.producer_epoch, epoch)
    verb = "appends" if asked.dry_run else "has appended"
    return AbortedHanging(
        text=f"The leader of {name} {verb} an abort marker for producer {producer.producer_id} (epoch "
        f"{producer.producer_epoch}). Consumers with read_committed skip its records since offset "
        f"{asked.start_offset}; the last stable offset, {stable} of {end}, can advance.",
        start_offset=asked.start_offset,
        last_stable_offset=stable,
        high_watermark=end,
    )


def _same(asked: AbortHanging, producers: Iterable[ActiveProducer]) -> ActiveProducer:
    for one in producers:
        found = (one.producer_id, one.producer_epoch, one.current_transaction_start_offset)
        if found == (asked.producer_id, asked.producer_epoch, asked.start_offset):
            return one
    raise RestError(
        409,
        f"{asked.topic}-{asked.partition} has no open transaction of producer {asked.producer_id} (epoch "
        f"{asked.producer_epoch}) that starts at offset {asked.start_offset}; search again",
    )


_DESCRIBE_TRANSACTION: Final = Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transactional_id")
_TRANSACTION: Final = "/transactions/{transactional_id}"
OPERATIONS: Final = (
    ApiOperation("GET", "/transactions", list_transactions, Right(Operation.DESCRIBE), Transactions),
    ApiOperation("GET", _TRANSACTION, get_transaction, _DESCRIBE_TRANSACTION, TransactionDetails),
    ApiOperation(
        "POST",
        f"{_TRANSACTION}/abort",
        abort_ongoing_transaction,
        Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        AbortedTransaction,
        takes=AbortTransaction,
    ),
    ApiOperation(
        "GET",
        "/hanging-transactions",
        find_hanging_transactions,
        Right(Operation.DESCRIBE),
        HangingTransactions,
        query=(Parameter("max_timeout_minutes"),),
    ),
    ApiOperation(
        "POST",
        "/hanging-transactions:abort",
        abort_hanging_transaction,
        Right(Operation.ALTER),
        AbortedHanging,
        takes=AbortHanging,
    ),
)
