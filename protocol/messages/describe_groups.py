"""Describe classic groups: state, protocol, members with metadata and assignment; sent by admin clients."""

from __future__ import annotations

from protocol.fields import array, boolean, byte_string, int16, int32, string
from protocol.message import Message


class DescribeGroupsRequest(Message, api_key=15, versions="0-5", flexible="5+"):
    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = byte_string("0+")
    member_assignment: bytes = byte_string("0+")


class DescribedGroup(Message):
    error_code: int = int16("0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-0x80000000)


class DescribeGroupsResponse(Message, api_key=15, versions="0-5", flexible="5+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
