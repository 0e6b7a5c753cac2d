"""The checks of ConsumerGroupHeartbeat requests that do not depend on the state of the group.

Source: GroupMetadataManager of 3.9, and of 4.0 for version 1.
"""

from __future__ import annotations

from collections.abc import Collection

from broker.coordinator.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from broker.coordinator.consumer.update import GroupError
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

FIRST_VERSION_WITH_OWN_ID = 1
"""The first version in which members choose their member ids, and can subscribe to a regular expression."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise GroupError (INVALID_REQUEST, UNSUPPORTED_ASSIGNOR) if the request is not valid."""
    _require(not _is_blank(request.group_id), "GroupId can't be empty.")
    _require(not _is_blank(request.instance_id), "InstanceId can't be empty.")
    _require(not _is_blank(request.rack_id), "RackId can't be empty.")
    epoch = request.member_epoch
    if epoch != 0 or version >= FIRST_VERSION_WITH_OWN_ID:
        _require(not _is_blank(request.member_id), "MemberId can't be empty.")
    if epoch == 0:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        what = "SubscribedTopicNames" if version < FIRST_VERSION_WITH_OWN_ID else "Topics or a regular expression"
        has_topics = bool(request.subscribed_topic_names) or bool(request.subscribed_topic_regex)
        _require(has_topics, f"{what} must be set in first request.")
    elif epoch == LEAVE_STATIC_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(epoch > 0 or epoch == LEAVE_EPOCH, "MemberEpoch is invalid.")
    _require(request.rebalance_timeout_ms >= -1, "RebalanceTimeoutMs is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _is_blank(text: str | None) -> bool:
    """Whether the text is empty or only whitespace; False for None."""
    return text is not None and not text.strip()


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise GroupError(ErrorCode.INVALID_REQUEST, message)
