"""LeaveGroup: remove members from a group, by themselves or by an administrator (several at once since KIP-345)."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

FIRST_VERSION_WITH_MEMBERS = 3


class LeaveGroupHandler(Handler[LeaveGroupRequest, LeaveGroupResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """See the module docstring. Before version 3 there is one member, and its error is that of the answer."""
        groups = self._services.coordination.groups
        if context.api_version >= FIRST_VERSION_WITH_MEMBERS:
            return await groups.leave(request.group_id, request.members)
        response = await groups.leave(request.group_id, [MemberIdentity(member_id=request.member_id)])
        member_code = response.members[0].error_code if response.members else ErrorCode.NONE
        return LeaveGroupResponse(error_code=response.error_code or member_code)

    def failed(self, request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
        """Return the answer with the error; no member leaves."""
        return LeaveGroupResponse(error_code=code)
