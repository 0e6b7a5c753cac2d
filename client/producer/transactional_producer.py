"""The transactional methods of the producer, and the order of their steps.

`client.producer.transaction_manager` sends the requests to the coordinators.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.errors import ClosedError, IllegalStateError, KafkaError, error_for
from client.producer.prepared_transaction import PreparedTransaction
from client.producer.transaction_manager import TransactionManager
from client.producer.transaction_status import TransactionState
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode

T = TypeVar("T")


class TransactionalProducer(ABC):
    """The base of `client.producer.producer.Producer`."""

    _transactions: TransactionManager | None
    _closing: bool

    @abstractmethod
    async def flush(self) -> None:
        """Return when every record sent so far is acknowledged or has failed."""

    @abstractmethod
    def _abandon(self, error: KafkaError) -> None:
        """Fail every record that is not in flight."""

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with producer.transaction():` commits at the end of the block, and aborts if the block raises."""
        await self.begin_transaction()
        try:
            yield
            await self.flush()  # the commit flushes, too, but could not be aborted any more
        except BaseException as error:
            try:
                await self.abort_transaction()
            except KafkaError as failure:  # the block's exception is more important
                error.add_note(f"the transaction was not aborted: {failure}")
            raise
        await self.commit_transaction()

    async def begin_transaction(self) -> None:
        """Open a transaction; all records sent until its end belong to it. Raises IllegalStateError if one is open, or
        the error that has ended the producer (ProducerFencedError, …).
        """
        self._manager().begin()

    async def commit_transaction(self) -> None:
        """Wait for all records, then commit. If a record has failed, abort and raise its error.

        After a retriable error it is unknown whether the coordinator has committed: call this method again.
        """
        await self._end_with(lambda manager: manager.end(commit=True))

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for all records, then hand the transaction over: any process can end it with `Admin.end_transactions`.
        Return None if nothing was written. If a record has failed, abort and raise its error.

        After this call the producer can only be closed, which leaves the transaction open.
        """
        return await self._end_with(lambda manager: manager.prepare())

    async def _end_with(self, end: Callable[[TransactionManager], Awaitable[T]]) -> T:
        manager = self._manager()
        manager.status.start_commit()
        try:
            await self.flush()
        except BaseException:  # cancelled
            manager.status.stop_commit()
            raise
        try:
            return await end(manager)
        except KafkaError as error:
            if manager.status.state is TransactionState.ABORTABLE_ERROR:
                try:
                    await self._abort(manager)
                except KafkaError as failure:
                    error.add_note(f"the transaction was not aborted: {failure}")
            raise

    async def abort_transaction(self) -> None:
        """Abort the transaction; records not yet acknowledged fail. After a retriable error call this method again."""
        await self._abort(self._manager())

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets (of the next records to read) if and when the transaction is committed.

        With a consumer's `group_metadata()` the offsets of a member that was replaced are refused (KIP-447). Raises the
        coordinators' errors (UnknownMemberIdError, IllegalGenerationError, …); then the transaction must be aborted.
        """
        await self._manager().send_offsets(
            offsets, group if isinstance(group, ConsumerGroupMetadata) else ConsumerGroupMetadata(group)
        )

    def _manager(self) -> TransactionManager:
        if self._closing:
            raise ClosedError("the producer has been closed")
        if self._transactions is None:
            raise IllegalStateError("this producer has no transactional_id")
        return self._transactions

    async def _abort(self, manager: TransactionManager) -> None:
        manager.status.start_abort()
        self._abandon(error_for(ErrorCode.TRANSACTION_ABORTABLE, "the transaction is being aborted"))
        await self.flush()
        await manager.end(commit=False)
