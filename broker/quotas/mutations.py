"""The quota of changes of topics (KIP-599): partitions created and deleted, as tokens of a bucket.

Newer versions of CreateTopics, CreatePartitions and DeleteTopics refuse a topic while the bucket is overdrawn; a topic
may overdraw it. Clients of older versions do not know the error: their topics are never refused, and their connections
are throttled for longer. Only validating a change costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.errors import RequestError
from broker.quotas.client_quotas import ClientQuotas, Share
from broker.quotas.rates import TokenBucket
from broker.requests.context import RequestContext
from protocol.error_codes import ErrorCode

NEVER_STRICT: Final = 1 << 15
"""As the first version that knows the error: none does."""
TakePartitions = Callable[[int], None]
"""Called with the number of partitions right before a topic is changed. May raise RequestError."""


def take_freely(partitions: int) -> None:
    """Take partitions without a quota."""


class MutationQuota:
    """What one request takes from the bucket of its client."""

    def __init__(self, share: Share[TokenBucket] | None, now_s: Callable[[], float], *, is_strict: bool) -> None:
        """share: None without a quota. is_strict: refuse a topic while the bucket is overdrawn."""
        self._share = share
        self._now_s = now_s
        self._is_strict = is_strict
        self._must_throttle = False

    @classmethod
    def of(cls, quotas: ClientQuotas, context: RequestContext, *, strict_from: int) -> MutationQuota:
        """Return the quota of a request's client. strict_from: the first version that knows the error."""
        share = quotas.of(context.principal.name, context.client_id).mutations if quotas.is_active else None
        return cls(share, quotas.now_s, is_strict=context.api_version >= strict_from)

    def take(self, partitions: int) -> None:
        """Take tokens for partitions to create or delete. Raises RequestError with THROTTLING_QUOTA_EXCEEDED."""
        share = self._share
        if share is None:
            return
        now_s = self._now_s()
        if self._is_strict and share.measure.is_overdrawn(now_s):
            self._must_throttle = True
            raise RequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")  # without a message, as in Kafka
        if share.measure.take(partitions, now_s) and not self._is_strict:
            self._must_throttle = True

    @property
    def throttle_ms(self) -> int:
        """How long to throttle the request when it is answered."""
        if self._share is None or not self._must_throttle:
            return 0
        return self._share.throttle(self._share.measure.throttle_s(self._now_s()))
