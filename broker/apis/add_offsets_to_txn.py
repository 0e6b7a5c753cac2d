"""AddOffsetsToTxn: announce that a transaction will commit offsets of a group (KIP-98).

The coordinator adds the group's partition of `__consumer_offsets` to the transaction, like any other partition.
"""

from __future__ import annotations

from broker.coordinator.transactions.transaction import code_for
from broker.errors import RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topics import OFFSETS_TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FIRST_VERSION_WITH_FENCED = 2


class AddOffsetsToTxnHandler(Handler[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse]):
    """Asks the transaction coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
        """See the module docstring."""
        groups = self._services.coordination.group_log
        await groups.learn_partitions()
        partition = (OFFSETS_TOPIC, groups.partition_for(request.group_id))
        try:
            await self._services.coordination.transactions.add_partitions(
                request.transactional_id, request.producer_id, request.producer_epoch, [partition]
            )
        except RequestError as error:
            return self.failed(request, code_for(error, context.api_version, FIRST_VERSION_WITH_FENCED))
        return AddOffsetsToTxnResponse()

    def failed(self, request: AddOffsetsToTxnRequest, code: ErrorCode) -> AddOffsetsToTxnResponse:
        """Return the answer with the error; the partition is not added."""
        return AddOffsetsToTxnResponse(error_code=code)
