"""The log of a coordinator: an internal topic. The leader of a partition coordinates the keys that hash to it.

There is one `CoordinatorLog` for `__consumer_offsets` and one for `__transaction_state`. The contract for the
coordinators:

- **A term** is the time from being elected leader of a partition until resigning; its number is the leader epoch with
  which it began. A newer leader epoch during a term does not begin another one. `listen` takes two callbacks:
  `elected(partition, term)`, called for every new term, and `resigned(partition)`. Both are called synchronously in the
  event loop, when LeaderAndIsr or StopReplica is handled or a log directory fails: they must not block or raise.
  `resigned` is called before the pending appends to the partition fail.
- **`replay`** passes all batches of a partition, control batches included, to a reader, and stops when the term ends.
  It reads from the log start offset to the log end offset, not to the high watermark: what the leader has in its log
  will be committed. Reads run outside the event loop, and `replay` yields to the loop after each. If the log cannot be
  read, `replay` starts again from the beginning, with back-off: a coordinator that served a part of the log would have
  lost the rest. Then it waits until all batches are committed (Kafka does not wait), because uncommitted batches can be
  lost with this broker after clients were told of them. If too few replicas are in sync to commit, it does not wait.
- **`write`** is the one way to change the state of a coordinator. It appends one batch synchronously, so that the order
  of calls is the order in the log. When the batch is committed (the high watermark is past it, acks=all; it is on disk
  if flush.messages requires it) or has failed, it passes an `Appended` to `finish`, which applies the change and
  returns the answer to the request. `finish` is called exactly once, in the order in which batches are committed, also
  if no request waits for the answer any more: a disconnect cancels nothing. If the term has ended meanwhile, the
  outcome is NOT_COORDINATOR. `in_log` is for state that follows the leader's log instead of the committed log: it is
  called as soon as the batch is in the log, with the offset of its first record. After a failure other than by the end
  of the term, the batch may still be in the log: the coordinator's state must be valid in both cases.
- **`find`** returns the broker that coordinates a key; `ensure_exists` creates the topic if it does not exist.
- **The number of partitions** determines the partition of a key. It is read from the registry, because the metadata may
  contain only a part of the topic, and does not change until a restart, as in Kafka. `replay`, `ensure_exists` and
  `learn_partitions` wait until it is known.

Source: KIP-98 (both coordinators use their log the same way), GroupMetadataManager and TransactionStateManager of 3.9.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from broker.cluster.metadata_cache import MetadataCache, Node
from broker.errors import RequestError, code_of
from broker.topics import Topics
from client.wire.backoff import Backoff, Retries
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.message_set import LegacyMessage, iter_mixed
from protocol.record_batch import RecordBatch
from protocol.sentinels import NO_LEADER
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
CREATION_WAIT_S = 5.0
"""How long `ensure_exists` waits for the leaders of a topic that it has created; half a second is usual."""

COMMIT_LOOK_S = 1.0
"""How often `replay` checks, while it waits for commits, whether enough replicas are in sync to commit."""

REPLAY_BACKOFF_MS = 1_000
REPLAY_BACKOFF_MAX_MS = 10_000
"""The first and the longest pause between two attempts to read a log: long, because each attempt reads all of it."""

LOG_ERRORS = (ReplicationError, StorageError, ProtocolError, OSError)
"""The exceptions of reading and appending."""

COMMON_CODES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The codes for clients after a failed append, common to both coordinators. Each coordinator translates the others."""


class Appended(NamedTuple):
    """The outcome of an append: NONE if it is committed, and the offset of its first record (-1: not in the log)."""

    error: ErrorCode
    base_offset: int


T = TypeVar("T")
R = TypeVar("R")
Batches = AsyncIterator[RecordBatch | LegacyMessage]
"""An old log may also contain messages of magic 0 and 1, which have `records()` as well."""

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
        """default_partitions: the number of partitions to assume while the topic does not exist."""
        self.topic = topic
        self._default_partitions = default_partitions
        self._partitions: int | None = None  # as read from the registry
        self._load_buffer_bytes = load_buffer_bytes
        self._replicas = replicas
        self._metadata = metadata
        self._topics = topics
        self._backoff = Backoff(random=rng)
        self._replay_backoff = Backoff(REPLAY_BACKOFF_MS, REPLAY_BACKOFF_MAX_MS, rng)
        self._terms: dict[int, int] = {}
        self._unapplied: Counter[int] = Counter()  # by partition: writes whose `finish` was not called yet
        self._is_closed = False
        self._elected: Elected | None = None
        self._resigned: Resigned | None = None

    # -- partitions and their leaders --------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of partitions of the topic, or the number with which it would be created."""
        return self._default_partitions if self._partitions is None else self._partitions

    async def learn_partitions(self) -> None:
        """Read the number of partitions from the registry, with retries. Without the topic it remains unknown."""
        retries = Retries(self._backoff)
        while self._partitions is None:
            try:
                count = await self._topics.count_partitions(self.topic)
            except RegistryError as error:
                logger.warning("the partitions of %s are not known yet: %s", self.topic, error)
                await retries.wait()
                continue
            if count == 0:
                return
            self._partitions = count

    def partition_for(self, key: str) -> int:
        """Return the partition of a group id or a transactional id.

        It is the absolute value of Java's String.hashCode modulo the number of partitions. The smallest int, which has
        no absolute value, counts as 0 (Kafka's Utils.abs).
        """
        number = java_hash(key)
        if number >= 1 << 31:
            number = (1 << 32) - number
        return number % (1 << 31) % self.partition_count

    def term_of(self, partition: int) -> int | None:
        """Return the current term of a partition; None if this broker is not its leader."""
        return self._terms.get(partition)

    async def ensure_exists(self) -> None:
        """Create the topic if it does not exist, and then wait a short time for its leaders. Raises RequestError."""
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
        """Return the coordinator of a key, with its address on the given listener; None if there is none."""
        broker_id = self.coordinator_of(key)
        return None if broker_id is None else self._metadata.snapshot.node(broker_id, listener_name)

    def coordinator_of(self, key: str) -> int | None:
        """Return the id of the coordinator of a key; None if there is none."""
        state = self._metadata.snapshot.partition(self.topic, self.partition_for(key))
        return None if state is None or state.leader == NO_LEADER else state.leader

    # -- terms -------------------------------------------------------------------------------------------------------

    def listen(self, elected: Elected, resigned: Resigned) -> None:
        """Call these for every term, and `elected` at once for the terms that have already begun."""
        self._elected, self._resigned = elected, resigned
        self._replicas.observe(self.topic, self._role_changed)
        for topic, partition in list(self._replicas.partitions):
            if topic == self.topic:
                self._role_changed(partition, self._replicas.partitions[(topic, partition)].is_leader)

    def _role_changed(self, partition: int, is_leader: bool) -> None:
        assert self._elected is not None
        assert self._resigned is not None
        if is_leader and partition not in self._terms and not self._is_closed:
            term = self._replicas.partitions[(self.topic, partition)].leader_epoch
            self._terms[partition] = term
            self._elected(partition, term)
        elif not is_leader and partition in self._terms:
            del self._terms[partition]
            self._resigned(partition)

    def close(self) -> None:
        """End all terms and begin none any more, because the broker stops."""
        self._is_closed = True
        for partition in list(self._terms):
            self._role_changed(partition, is_leader=False)

    # -- reading and writing -----------------------------------------------------------------------------------------

    async def replay(self, partition: int, term: int, read: Callable[[Batches], Awaitable[T]]) -> T | None:
        """Pass all batches of a partition's log, in order, to `read` and return its result.

        Return None if the term ends before. Every attempt calls `read` again. See the module docstring.
        """
        retries = Retries(self._replay_backoff)
        while self._terms.get(partition) == term:
            try:
                made = await read(self._batches(partition, term))
            except LOG_ERRORS as error:
                delay_s = retries.next_delay_s()
                logger.error("%s-%d cannot be loaded, tried again in %.1f s: %s", self.topic, partition, delay_s, error)
                await asyncio.sleep(delay_s)
                continue
            await self._until_committed(partition, term)
            return made if self._terms.get(partition) == term else None
        return None

    async def _batches(self, partition: int, term: int) -> Batches:
        """Yield every batch, in order. Raises LOG_ERRORS."""
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
        """Wait until all records of a partition are committed, cannot be committed, or the term ends."""
        key = (self.topic, partition)
        while self._terms.get(partition) == term:
            found = self._replicas.partitions[key]
            if found.log is None or found.log.high_watermark >= found.log.log_end_offset or found.is_under_min_isr:
                return
            committed = self._replicas.wait_for_commit({key: found.log.log_end_offset}, COMMIT_LOOK_S)
            if committed is not None:
                await committed

    def write(
        self,
        partition: int,
        term: int | None,
        batch: bytearray,
        timeout_ms: int,
        finish: Callable[[Appended], R],
        *,
        in_log: Callable[[int], None] | None = None,
        required_acks: int = ACKS_ALL,
    ) -> asyncio.Future[R]:
        """Append one batch (built by `RecordBatchBuilder`) in this term; apply the change. See the module docstring.

        Return a future of the answer. It is done at once if there is nothing to wait for.
        """
        if term is None or self._terms.get(partition) != term:
            return settled(finish(Appended(ErrorCode.NOT_COORDINATOR, NO_OFFSET)))
        try:
            info = self._replicas.append(
                self.topic, partition, memoryview(batch), required_acks, AppendOrigin.COORDINATOR
            )
        except LOG_ERRORS as error:
            return settled(finish(Appended(_code(error), NO_OFFSET)))
        end_offset = {(self.topic, partition): info.last_offset + 1}
        waiting = self._replicas.wait_for_appends(
            end_offset if required_acks == ACKS_ALL else {},
            end_offset if info.flush_required else {},
            timeout_ms / 1000,
        )
        if in_log is not None:
            in_log(info.first_offset)
        if waiting is None:
            if not self._unapplied[partition]:
                return settled(finish(Appended(ErrorCode.NONE, info.first_offset)))
            waiting = settled({})  # earlier writes are committed, but the event loop has not applied them yet
        self._unapplied[partition] += 1
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def done(waited: asyncio.Future[Outcomes]) -> None:
            self._unapplied[partition] -= 1
            error = None if waited.cancelled() else waited.exception() or waited.result().get((self.topic, partition))
            is_over = waited.cancelled() or self._terms.get(partition) != term
            code = ErrorCode.NOT_COORDINATOR if is_over else ErrorCode.NONE if error is None else _code(error)
            try:
                result = finish(Appended(code, info.first_offset))
            except Exception as failure:
                if not answer.done():
                    answer.set_exception(failure)
                return
            if not answer.done():
                answer.set_result(result)

        waiting.add_done_callback(done)
        return answer


def settled(result: R) -> asyncio.Future[R]:
    """Return a future that is done."""
    done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    done.set_result(result)
    return done


def answer_of(answer: asyncio.Future[R]) -> R | asyncio.Future[R]:
    """Return the answer of a write, or its future if the write is not committed yet.

    Another iteration of the event loop costs a part of a request that has nothing to wait for.
    """
    return answer.result() if answer.done() else answer


def _code(error: BaseException) -> ErrorCode:
    with suppress(KeyError):
        return COMMON_CODES[code_of(error)]
    return code_of(error)
