"""Who a producer is to the brokers: a producer id and an epoch, under which its batches are numbered (KIP-98).

Without a transactional id any broker gives an id, and the producer takes the next epoch of it by itself when it has to
number anew (KIP-360): a batch of an older epoch is refused should it come after one of the newer. With a transactional
id both come from the transaction coordinator (`client.producer.transaction_manager`).
"""

import asyncio
from collections.abc import Callable

from client.errors import KafkaError, error_for
from client.wire.cluster import Cluster
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

MAX_PRODUCER_EPOCH = 2**15 - 2  # Kafka's producers leave the last one out
NONE = (-1, -1)


class ProducerIdentity:
    """`current` is (producer id, epoch), NONE while there is none. `on_known` is called when there is one again,
    `on_trouble` with every error meanwhile: one that is not retriable ends the attempts.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        request_timeout_ms: int,
        on_known: Callable[[], None],
        on_trouble: Callable[[KafkaError], None],
    ) -> None:
        self.current = NONE
        self._cluster = cluster
        self._request_timeout_ms = request_timeout_ms
        self._on_known = on_known
        self._on_trouble = on_trouble
        self._fetching = False

    def renew(self, used: tuple[int, int]) -> None:
        """Go on under the next epoch, unless that was done since `used`; with none left, under a new id."""
        if used != self.current or used == NONE:
            return
        producer_id, epoch = self.current
        self.current = (producer_id, epoch + 1) if epoch < MAX_PRODUCER_EPOCH else NONE

    def fetch(self) -> None:
        """Ask for an id in the background, until there is one."""
        if not self._fetching:
            self._fetching = True
            self._cluster.background.spawn(self._fetch(), "producer id")

    async def _fetch(self) -> None:
        attempt = 0
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
                    self._on_trouble(error)
                    if not error.retriable:
                        return
                    await asyncio.sleep(self._cluster.backoff.delay_s(attempt))
                    attempt += 1
        finally:
            self._fetching = False
        self._on_known()
