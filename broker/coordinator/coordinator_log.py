"""The log of a coordinator: one internal topic, whose partition's leader coordinates the keys that hash to it.

One `CoordinatorLog` for `__consumer_offsets` and one for `__transaction_state`. The contract for the coordinators:

- **A term** is the time from being elected leader of a partition until resigning from it; it is named by the leader
  epoch with which it began. `listen` gives two callbacks: `elected(partition, term)`, then as often as there is a new
  term, and `resigned(partition)`. A newer leader epoch during a term changes nothing. Both are called at once, in the
  event loop, from LeaderAndIsr or StopReplica or where a log directory fails: they must not block or raise. Resigning
  comes before the appends that wait in that partition fail.
- **`replay`** gives a reader everything in a partition's log from its start to its end, batch by batch, control batches
  included, and ends as soon as the term does. Its end is the log end offset, not the high watermark: a leader's log is
  what will be committed. Reads leave the event loop, and it yields to the loop after each. A log that cannot be read is
  read again from its start, with back-off: to serve a part of it would be to forget the rest. After that it waits until
  everything is committed, where Kafka goes on at once: what this broker would tell of it meanwhile could be lost with
  it. Where too few replicas are in sync to commit anything, it does not wait.
- **`append`** writes one batch at once, so that the order of calls is the order in the log, and returns a future of an
  `Appended`, which is done when the batch is committed (its high watermark passed, acks=all) or failed: nothing is to
  be answered OK before. The future never raises and is often done already. After a failure other than by the term's
  end the batch may be in the log all the same: what a coordinator believes then must fit both.
- **`find`** names the broker that coordinates a key, `ensure_exists` makes the topic where there is none.
- **The number of partitions** decides where a key belongs, so it is learnt from the registry, once: the metadata may
  know a part of the topic only. It stands until a restart, as Kafka's does. `replay`, `ensure_exists` and
  `learn_partitions` wait until it is known.

Source: KIP-98 (both coordinators use their log the same way), GroupMetadataManager and TransactionStateManager of 3.9.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from broker.cluster.metadata_cache import MetadataCache, Node
from broker.errors import RequestError, code_of
from broker.topics import Topics
from client.wire.backoff import Backoff
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.message_set import LegacyMessage, iter_mixed
from protocol.record_batch import RecordBatch
from registry.errors import RegistryError
from registry.znodes.java_order import java_hash
from replication.errors import ReplicationError
from replication.isolation import Isolation
from replication.partition import ACKS_ALL
from replication.replica_manager import Outcomes, ReplicaManager
from storage.errors import StorageError
from storage.log.append import AppendOrigin

logger = logging.getLogger(__name__)

NO_OFFSET = -1
LEARNING_BACKOFF_S = 0.5
CREATION_WAIT_S = 5.0
"""How long `ensure_exists` waits for the leaders of a topic that it has made; usually half a second."""

COMMIT_LOOK_S = 1.0
"""How often somebody who waits for commits looks whether there are still replicas enough to wait for."""

REPLAY_BACKOFF_MS = 1_000
REPLAY_BACKOFF_MAX_MS = 10_000
"""Between two attempts to read a log."""

LOG_ERRORS = (ReplicationError, StorageError, ProtocolError, OSError)
"""What reading a log and appending to it raise."""

COMMON_CODES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What clients of either coordinator are told of a failed append; other codes are for the coordinator to translate."""


class Appended(NamedTuple):
    """The outcome of an append: NONE once it is committed, and where its first record lies (-1: not in the log)."""

    error: ErrorCode
    base_offset: int


T = TypeVar("T")
Batches = AsyncIterator[RecordBatch | LegacyMessage]
"""Of old logs messages of magic 0 and 1, which have `records()` too."""

Elected = Callable[[int, int], None]
Resigned = Callable[[int], None]


class CoordinatorLog:
    """One internal topic as the log of a coordinator. See the module docstring."""

    def __init__(
        self,
        topic: str,
        *,
        default_partitions: int,
        load_buffer_bytes: int,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        topics: Topics,
        rng: random.Random,
    ) -> None:
        """default_partitions: how many there are taken to be while the topic does not exist."""
        self.topic = topic
        self._default_partitions = default_partitions
        self._partitions: int | None = None  # in the registry
        self._load_buffer_bytes = load_buffer_bytes
        self._replicas = replicas
        self._metadata = metadata
        self._topics = topics
        self._backoff = Backoff(REPLAY_BACKOFF_MS, REPLAY_BACKOFF_MAX_MS, rng)
        self._terms: dict[int, int] = {}
        self._elected: Elected | None = None
        self._resigned: Resigned | None = None

    # -- which partition, and who leads it ---------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The partitions of the topic, or those it would be created with."""
        return self._default_partitions if self._partitions is None else self._partitions

    async def learn_partitions(self) -> None:
        """Wait until `partition_count` is what the registry says, where that knows the topic."""
        while self._partitions is None:
            try:
                count = await self._topics.count_partitions(self.topic)
            except RegistryError as error:
                logger.warning("the partitions of %s are not known yet: %s", self.topic, error)
                await asyncio.sleep(LEARNING_BACKOFF_S)
                continue
            if count == 0:
                return
            self._partitions = count

    def partition_for(self, key: str) -> int:
        """The partition that holds what is said about a group or a transactional id.

        By the absolute value of Java's signed hash, 0 for the one that has none (Kafka's Utils.abs).
        """
        number = java_hash(key)
        if number >= 1 << 31:
            number = (1 << 32) - number
        return number % (1 << 31) % self.partition_count

    def term_of(self, partition: int) -> int | None:
        """The current term in a partition; None where this broker does not lead it."""
        return self._terms.get(partition)

    async def ensure_exists(self) -> None:
        """Create the topic where there is none, and wait a moment for its leaders. Raises RequestError."""
        if self.topic in self._metadata.snapshot.topics:
            await self.learn_partitions()
            return
        self._partitions = None
        try:
            await self._topics.create_default(self.topic)
        except RequestError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self.learn_partitions()
        await self._topics.wait_until_led(self.topic, self.partition_count, CREATION_WAIT_S)

    def find(self, key: str, listener_name: str) -> Node | None:
        """The coordinator of a key, as clients of a listener reach it; None while there is none."""
        snapshot = self._metadata.snapshot
        state = snapshot.partition(self.topic, self.partition_for(key))
        return None if state is None else snapshot.node(state.leader, listener_name)

    # -- terms -------------------------------------------------------------------------------------------------------

    def listen(self, elected: Elected, resigned: Resigned) -> None:
        """Tell these of every term; at once of those that have begun."""
        self._elected, self._resigned = elected, resigned
        self._replicas.observe(self.topic, self._role_changed)
        for topic, partition in list(self._replicas.partitions):
            if topic == self.topic:
                self._role_changed(partition, self._replicas.partitions[(topic, partition)].is_leader)

    def _role_changed(self, partition: int, is_leader: bool) -> None:
        assert self._elected is not None
        assert self._resigned is not None
        if is_leader and partition not in self._terms:
            term = self._replicas.partitions[(self.topic, partition)].leader_epoch
            self._terms[partition] = term
            self._elected(partition, term)
        elif not is_leader and partition in self._terms:
            del self._terms[partition]
            self._resigned(partition)

    # -- reading and writing -----------------------------------------------------------------------------------------

    async def replay(self, partition: int, term: int, read: Callable[[Batches], Awaitable[T]]) -> T | None:
        """What `read` makes of all batches of a partition's log, in order; None where the term ends before.

        `read` is called again for each attempt. See the module docstring.
        """
        attempt = 0
        while self._terms.get(partition) == term:
            try:
                made = await read(self._batches(partition, term))
            except LOG_ERRORS as error:
                delay_s = self._backoff.delay_s(attempt)
                logger.error("%s-%d cannot be loaded, tried again in %.1f s: %s", self.topic, partition, delay_s, error)
                await asyncio.sleep(delay_s)
                attempt += 1
                continue
            await self._until_committed(partition, term)
            return made if self._terms.get(partition) == term else None
        return None

    async def _batches(self, partition: int, term: int) -> Batches:
        """Every batch, in order. Raises LOG_ERRORS."""
        await self.learn_partitions()
        found = self._replicas.partitions.get((self.topic, partition))
        if found is None or found.log is None:
            return
        offset = found.log.log_start_offset
        while self._terms.get(partition) == term and offset < found.leader_log().log_end_offset:
            info = found.read(offset, self._load_buffer_bytes, isolation=Isolation.LOG_END, min_one_message=True)
            if info.records is None:
                return
            data = await info.records.read_later(0, len(info.records))
            before = offset
            for batch in iter_mixed(data, partial=True):
                if self._terms.get(partition) != term:
                    return
                if batch.last_offset >= offset:
                    yield batch
                    offset = batch.next_offset
            if offset == before:
                return
            await asyncio.sleep(0)

    async def _until_committed(self, partition: int, term: int) -> None:
        """Wait until everything in a partition's log is committed, or the term ends."""
        key = (self.topic, partition)
        while self._terms.get(partition) == term:
            found = self._replicas.partitions[key]
            if found.log is None or found.log.high_watermark >= found.log.log_end_offset or found.is_under_min_isr:
                return
            committed = self._replicas.wait_for_commit({key: found.log.log_end_offset}, COMMIT_LOOK_S)
            if committed is not None:
                await committed

    def append(
        self, partition: int, term: int, batch: bytearray, timeout_ms: int, required_acks: int = ACKS_ALL
    ) -> asyncio.Future[Appended]:
        """Append one batch (of a `RecordBatchBuilder`, or a marker) in this term; see the module's text."""
        if self._terms.get(partition) != term:
            return settled(ErrorCode.NOT_COORDINATOR)
        try:
            info = self._replicas.append(
                self.topic, partition, memoryview(batch), required_acks, AppendOrigin.COORDINATOR
            )
        except LOG_ERRORS as error:
            return settled(_code(error))
        end_offset = {(self.topic, partition): info.last_offset + 1}
        waiting = self._replicas.wait_for_appends(
            end_offset if required_acks == ACKS_ALL else {},
            end_offset if info.flush_required else {},
            timeout_ms / 1000,
        )
        if waiting is None:
            return settled(ErrorCode.NONE, info.first_offset)
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        def finish(waited: asyncio.Future[Outcomes]) -> None:
            if done.done():
                return
            error = None if waited.cancelled() else waited.exception() or waited.result().get((self.topic, partition))
            is_over = waited.cancelled() or self._terms.get(partition) != term
            code = _code(error) if error is not None else ErrorCode.NOT_COORDINATOR if is_over else ErrorCode.NONE
            done.set_result(Appended(code, info.first_offset))

        waiting.add_done_callback(finish)
        return done


def settled(error: ErrorCode, base_offset: int = NO_OFFSET) -> asyncio.Future[Appended]:
    """A future whose outcome is known already."""
    done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
    done.set_result(Appended(error, base_offset))
    return done


def _code(error: BaseException) -> ErrorCode:
    with suppress(KeyError):
        return COMMON_CODES[code_of(error)]
    return code_of(error)
