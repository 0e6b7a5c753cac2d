"""DescribeCluster: cluster id, controller and brokers (KIP-700)."""

from __future__ import annotations

from broker.requests.authorized_operations import NOT_ASKED, operations_on
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from security.acls.types import ResourceType

ENDPOINT_BROKER = 1
ENDPOINT_CONTROLLER = 2


class DescribeClusterHandler(Handler[DescribeClusterRequest, DescribeClusterResponse]):
    """Answers from the metadata cache."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
        """See the module docstring."""
        if request.endpoint_type != ENDPOINT_BROKER:
            known = request.endpoint_type == ENDPOINT_CONTROLLER
            response = self.failed(
                request, ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            )
            response.error_message = "The request was sent to an endpoint of type BROKER."
            return response
        snapshot = self._services.metadata.snapshot
        return DescribeClusterResponse(
            cluster_id=self._services.cluster_id,
            controller_id=snapshot.controller_id,
            brokers=[
                DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in snapshot.nodes(context.listener_name)
            ],
            cluster_authorized_operations=(
                operations_on(ResourceType.CLUSTER) if request.include_cluster_authorized_operations else NOT_ASKED
            ),
        )

    def failed(self, request: DescribeClusterRequest, code: ErrorCode) -> DescribeClusterResponse:
        """Return the answer to a failed request."""
        return DescribeClusterResponse(error_code=code, endpoint_type=request.endpoint_type)
