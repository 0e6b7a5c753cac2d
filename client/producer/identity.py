"""The identity of a producer: a producer id and an epoch, under which its batches are numbered (KIP-98).

Without a transactional id any broker allocates a producer id, and the producer increments the epoch itself when it
needs new sequence numbers (KIP-360): a broker refuses a batch of an older epoch after one of a newer epoch. With a
transactional id both come from the transaction coordinator (`client.producer.transaction_manager`).
"""

from collections.abc import Callable

from client.errors import KafkaError, error_for
from client.wire.cluster import Cluster
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

MAX_PRODUCER_EPOCH = 2**15 - 2  # Kafka's producers do not use the last epoch
NONE = (-1, -1)


class ProducerIdentity:
    """The id and the epoch of a producer: `current` is (producer id, epoch), NONE while there is none.

    on_known: called when `fetch` has received a producer id. on_error: called with each error of an attempt; an error
    that is not retriable ends the attempts.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        request_timeout_ms: int,
        on_known: Callable[[], None],
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self.current = NONE
        self._cluster = cluster
        self._request_timeout_ms = request_timeout_ms
        self._on_known = on_known
        self._on_error = on_error
        self._fetching = False

    def renew(self, used: tuple[int, int]) -> None:
        """Change to the next epoch, unless `used` is no longer current. After the last epoch a new id is needed."""
        if used != self.current or used == NONE:
            return
        producer_id, epoch = self.current
        self.current = (producer_id, epoch + 1) if epoch < MAX_PRODUCER_EPOCH else NONE

    def fetch(self) -> None:
        """Request a producer id in the background, until there is one."""
        if not self._fetching:
            self._fetching = True
            self._cluster.background.spawn(self._fetch(), "producer id")

    async def _fetch(self) -> None:
        retries = self._cluster.retries()
        try:
            while True:
                try:
                    connection = await self._cluster.any_connection()
                    answer = await connection.call(
                        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self._request_timeout_ms),
                        InitProducerIdResponse,
                    )
                    if answer.error_code:
                        raise error_for(answer.error_code, context="producer id")
                    self.current = (answer.producer_id, answer.producer_epoch)
                    break
                except KafkaError as error:
                    self._on_error(error)
                    if not error.retriable:
                        return
                    await retries.wait()
        finally:
            self._fetching = False
        self._on_known()
