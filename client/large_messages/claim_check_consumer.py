"""A consumer of records whose values `ClaimCheckProducer` has put into a store; it passes other records unchanged."""

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
    """Replaces claims by their values. See `ConsumerWrapper`.

    Values are read from `store`; only the name within the store comes from the record, so that a record cannot cause
    reads elsewhere. `max_loaded_bytes`: `getmany` returns fewer records if their values would exceed this limit; a
    single larger value is still returned. The inner consumer must have no `value_deserializer`.
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

        Raises BlobMissingError and ClaimError, which name topic, partition, offset and the missing value, and OSError.
        Then the position stays at this record: to skip it, `seek` to the next offset.
        """
        found = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)
        whole: dict[TopicPartition, list[ConsumerRecord]] = {}
        try:
            await self._fill(found, whole)
        except Exception:
            if not whole:
                raise
            # Return the records before it; the next call reads the record again and raises again.
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
        """Move records with their values to `whole`, up to `max_loaded_bytes`."""
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
