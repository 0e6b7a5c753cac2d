"""Znodes of delegation tokens (KIP-48). No recorded cluster has one: the order of keys is that of Kafka's maps."""

from __future__ import annotations

from registry.znodes.java_order import immutable_map_order
from registry.znodes.sanitizer import desanitize, sanitize
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_text, to_json


class DelegationTokenAuthZnode(EmptyZnode):
    """Parent of tokens and notifications."""

    TEMPLATE = "/delegation_token"


class DelegationTokensZnode(EmptyZnode):
    """Parent of the tokens."""

    TEMPLATE = "/delegation_token/tokens"


class DelegationTokenZnode(Znode):
    """A token. Principals are `type:name`, sanitized in the JSON. Version 3 has the requester."""

    TEMPLATE = "/delegation_token/tokens/{token}"

    token_id: str
    owner: str
    token_requester: str
    renewers: list[str]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiry_timestamp_ms: int

    @staticmethod
    def path(token: str) -> str:
        """Path for a token id."""
        return f"/delegation_token/tokens/{token}"

    def encode(self) -> bytes:
        """JSON of version 3 in the order of Kafka's hash trie."""
        fields = {
            "version": 3,
            "owner": sanitize(self.owner),
            "tokenRequester": sanitize(self.token_requester),
            "renewers": [sanitize(renewer) for renewer in self.renewers],
            "issueTimestamp": self.issue_timestamp_ms,
            "maxTimestamp": self.max_timestamp_ms,
            "expiryTimestamp": self.expiry_timestamp_ms,
            "tokenId": self.token_id,
        }
        return to_json({name: fields[name] for name in immutable_map_order(fields)})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> DelegationTokenZnode:
        """Read versions 1 to 3; before version 3 the owner is the requester."""
        content = Content.parse(data, path)
        requester = "tokenRequester" if content.version(1, 3) >= 3 else "owner"
        return cls(
            token_id=content.string("tokenId"),
            owner=desanitize(content.string("owner")),
            token_requester=desanitize(content.string(requester)),
            renewers=[desanitize(renewer) for renewer in content.strings("renewers")],
            issue_timestamp_ms=content.long("issueTimestamp"),
            max_timestamp_ms=content.long("maxTimestamp"),
            expiry_timestamp_ms=content.long("expiryTimestamp"),
        )


class DelegationTokenChangesZnode(EmptyZnode):
    """Parent of the notifications."""

    TEMPLATE = "/delegation_token/token_changes"


class DelegationTokenChangeZnode(Znode):
    """Notifies brokers that a token has changed: its id as plain text. Sequential."""

    TEMPLATE = "/delegation_token/token_changes/token_change_{sequence}"

    token_id: str

    @staticmethod
    def path(sequence: str = "") -> str:
        """Path for a sequence number; without, the prefix to create one."""
        return f"/delegation_token/token_changes/token_change_{sequence}"

    def encode(self) -> bytes:
        """Plain text."""
        return self.token_id.encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> DelegationTokenChangeZnode:
        """Read plain text."""
        return cls(token_id=parse_text(data, path))
