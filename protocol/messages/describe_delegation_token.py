"""List delegation tokens by owner."""

from __future__ import annotations

from protocol.fields import array, byte_string, int16, int32, int64, string
from protocol.message import Message


class DescribeDelegationTokenOwner(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribeDelegationTokenRequest(Message, api_key=41, versions="0-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, "0+", nullable="0+")


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribedDelegationToken(Message):
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+", ignorable=True)
    token_requester_principal_name: str = string("3+", ignorable=True)
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = byte_string("0+")
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Message, api_key=41, versions="0-3", flexible="2+"):
    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")
