"""A broker that is about to stop asks the controller to move its leaders to other brokers (ControlledShutdown).

The broker serves clients meanwhile. If partitions cannot be moved, or the request fails, the broker asks again, up to
`controlled.shutdown.max.retries` times; after that it stops anyway. A broker that knows no other live broker does not
ask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.cluster.metadata_cache import MetadataCache
from broker.errors import RequestError
from broker.settings.config import BrokerConfig
from client.errors import KafkaError
from client.wire.node_connection import ConnectionOptions
from protocol.error_codes import ErrorCode, code_name, known_code
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_VERSION = 3


class ControlledShutdown:
    """The controlled shutdown of one broker."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        metadata: MetadataCache,
        options: ConnectionOptions,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._metadata = metadata
        self._connection_options = options
        self._broker_epoch = broker_epoch

    async def run(self) -> bool:
        """Hand over leadership. Return False if this broker may still lead partitions that others could lead."""
        config = self._config
        if not config.controlled_shutdown_enable or await self._is_alone(within_s=0.0):
            return True
        for left in reversed(range(config.controlled_shutdown_max_retries)):
            try:
                remaining = await self._ask()
            except (KafkaError, RequestError) as error:
                logger.warning("controlled shutdown: %s", error or type(error).__name__)
            else:
                if not remaining:
                    return True
                logger.warning("controlled shutdown: no other broker can lead %d partitions yet", remaining)
            if left and await self._is_alone(within_s=config.controlled_shutdown_retry_backoff_ms / 1000):
                return True
        logger.warning("stopping although some partitions are not handed over")
        return False

    async def _is_alone(self, *, within_s: float) -> bool:
        """Return whether this broker is the only live one, or becomes the only one within this time."""
        return await self._metadata.wait_until(lambda snapshot: snapshot.brokers.keys() <= {self._broker_id}, within_s)

    async def _ask(self) -> int:
        """Send ControlledShutdown. Return how many partitions are left. Raises KafkaError, RequestError."""
        snapshot = self._metadata.snapshot
        controller_id = snapshot.controller_id
        address = snapshot.address(controller_id, self._config.inter_broker_listener_name)
        if address is None:
            raise RequestError(ErrorCode.BROKER_NOT_AVAILABLE, "no controller is known")
        connection = await self._connection_options.open(address)
        try:
            request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
            answer = await connection.call(request, ControlledShutdownResponse, CONTROLLED_SHUTDOWN_VERSION)
        finally:
            await connection.close()
        if answer.error_code:
            raise RequestError(
                known_code(answer.error_code), f"broker {controller_id} answered {code_name(answer.error_code)}"
            )
        return len(answer.remaining_partitions)
