"""JoinGroup: join a classic group, or rejoin it in a rebalance. The answer waits for the other members."""

from __future__ import annotations

import asyncio

from broker.requests.context import RequestContext
from broker.requests.handler import Handler, Needs, Operation, Resource
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITHOUT_PROTOCOL_NAME = 7
"""Earlier versions cannot have a null protocol name."""


class JoinGroupHandler(Handler[JoinGroupRequest, JoinGroupResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)
    needs = Needs(Resource.GROUP, Operation.READ)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """See the module docstring. A member that disconnects meanwhile stays a member until its session times out."""
        answered: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        version = context.api_version

        def answer(response: JoinGroupResponse) -> None:
            if not answered.done():
                answered.set_result(_fitting(response, version))

        self._services.coordination.groups.join(
            request, version, context.client_id or "", f"/{context.client_address}", answer
        )
        return answered.result() if answered.done() else answered

    def failed(self, request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
        """The member does not join."""
        return JoinGroupResponse(error_code=code, protocol_name="")


def _fitting(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < FIRST_VERSION_WITHOUT_PROTOCOL_NAME and response.protocol_name is None:
        response.protocol_name = ""
    return response
