"""The audit log of authorization: every denied decision (INFO) and, at level DEBUG, every allowed one.

A request that needs the same decision several times, for instance for each partition of a topic, has one line for it.

It is a logger of its own, as Kafka's `kafka.authorizer.logger`, named after this module. A line has the fields
`principal`, `host`, `operation`, `resource`, `api`, `client_id` and `listener`. Texts that clients choose are JSON
strings in ASCII, so that no client can begin a new line or a new field.
"""

from __future__ import annotations

import json
import logging

from broker.authorization.asker import Asker
from security.acls.types import Operation, ResourceType

logger = logging.getLogger(__name__)

_LINE = "%s: principal=%s host=%s operation=%s resource=%s:%s api=%s client_id=%s listener=%s"


def log_denied(context: Asker, api: str, operation: Operation, resource_type: ResourceType, name: str | None) -> None:
    """Write a line for a denied decision. name: None for any resource of the type."""
    if logger.isEnabledFor(logging.INFO):
        logger.info(_LINE, "denied", *_fields(context, api, operation, resource_type, name))


def log_allowed(context: Asker, api: str, operation: Operation, resource_type: ResourceType, name: str | None) -> None:
    """Write a line for an allowed decision, at level DEBUG."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(_LINE, "allowed", *_fields(context, api, operation, resource_type, name))


def _fields(
    context: Asker, api: str, operation: Operation, resource_type: ResourceType, name: str | None
) -> tuple[str, ...]:
    return (
        json.dumps(str(context.principal)),
        json.dumps(context.client_address),
        operation.label,
        resource_type.label,
        json.dumps(name),
        api,
        json.dumps(context.client_id),
        context.listener_name,
    )
