"""A consumer of records whose values `ClaimCheckProducer` has left in a store; others pass as they are."""

from collections.abc import Mapping, Sequence

from client.consumer.fetched import ConsumerRecord
from client.consumer.record_source import RecordSource
from client.errors import ClaimError
from client.large_messages.blob_store import BlobStore
from client.large_messages.claim import HEADER, Claim
from client.large_messages.consumer_wrapper import ConsumerWrapper
from client.options import check_range, refuse_unknown
from client.topic_partition import TopicPartition


class ClaimCheckConsumer(ConsumerWrapper):
    """Puts the values back into their records. See `ConsumerWrapper`.

    Values come from `store`, whatever the record says: its name in it counts, so that a record cannot have anything
    else read. `max_loaded_bytes`: `getmany` gives less where more would be loaded at once; a single larger value still
    comes.
    The inner consumer must have no `value_deserializer`.
    """

    def __init__(
        self,
        consumer: RecordSource,
        *,
        store: str,
        max_loaded_bytes: int = 64 * 1024 * 1024,
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown, ClaimCheckConsumer)
        super().__init__(consumer)
        check_range("max_loaded_bytes", max_loaded_bytes, 1)
        self._store = BlobStore(store)
        self._max_loaded_bytes = max_loaded_bytes

    async def getmany(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records, by partition and in order.

        Raises BlobMissingError and ClaimError, which name topic, partition, offset and what is missing, and OSError.
        The position stays at that record: to go on without it, `seek` behind it.
        """
        found = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)
        whole: dict[TopicPartition, list[ConsumerRecord]] = {}
        try:
            await self._fill(found, whole)
        except Exception:
            if not whole:
                raise
            # What came before it first; it is read again then, and raises again.
        except BaseException:
            whole.clear()
            raise
        finally:
            for partition, records in found.items():
                taken = len(whole.get(partition, ()))
                if taken < len(records) and partition in self._consumer.assignment():
                    self._consumer.seek(partition, records[taken].offset)
        return whole

    async def _fill(
        self,
        found: Mapping[TopicPartition, Sequence[ConsumerRecord]],
        whole: dict[TopicPartition, list[ConsumerRecord]],
    ) -> None:
        """Move records to `whole`, with their values, until that is enough."""
        loaded = 0
        for partition, records in found.items():
            for record in records:
                if any(name == HEADER for name, _ in record.headers):
                    try:
                        claim = Claim.decode(record.value)
                        if loaded and loaded + claim.size > self._max_loaded_bytes:
                            return
                        value = await self._store.get(claim)
                    except ClaimError as error:
                        raise type(error)(f"{partition} offset {record.offset}: {error}") from error
                    loaded += len(value)
                    headers = tuple(header for header in record.headers if header[0] != HEADER)
                    whole.setdefault(partition, []).append(record._replace(value=value, headers=headers))
                else:
                    whole.setdefault(partition, []).append(record)
