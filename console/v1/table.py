"""The table of operations of `/api/v1`: each subject has a module with its own rows."""

from __future__ import annotations

from typing import Final

from console.rest.operation import ApiOperation
from console.v1 import (
    brokers,
    delegation_tokens,
    group_offsets,
    groups,
    inside_groups,
    inside_registry,
    inside_replication,
    inside_storage,
    message_streams,
    messages,
    overview,
    partitions,
    quotas,
    reassignments,
    schemas,
    security,
    session,
    topic_groups,
    topic_settings,
    topics,
    transactions,
    users,
)

ROOT: Final = "/api/v1"
OPERATIONS: Final[tuple[ApiOperation, ...]] = (
    *session.OPERATIONS,
    *overview.OPERATIONS,
    *topics.OPERATIONS,
    *brokers.OPERATIONS,
    *reassignments.OPERATIONS,
    *partitions.OPERATIONS,
    *messages.OPERATIONS,
    *message_streams.OPERATIONS,
    *schemas.OPERATIONS,
    *inside_registry.OPERATIONS,
    *transactions.OPERATIONS,
    *topic_groups.OPERATIONS,
    *topic_settings.OPERATIONS,
    *groups.OPERATIONS,
    *group_offsets.OPERATIONS,
    *security.OPERATIONS,
    *users.OPERATIONS,
    *quotas.OPERATIONS,
    *delegation_tokens.OPERATIONS,
    *inside_storage.OPERATIONS,
    *inside_replication.OPERATIONS,
    *inside_groups.OPERATIONS,
)
