"""The operations that a caller may do on a resource, as the bit field in Metadata and Describe answers (KIP-430).

There is no authorization yet (authorizers are refused at the start), so every operation of a resource is allowed.
"""

from __future__ import annotations

from broker.requests.handler import Operation, Resource

NOT_ASKED = -0x80000000
"""The value of the field if the client did not ask for it."""

_OPERATIONS = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def operations_on(resource: Resource) -> int:
    """Return one bit per operation, with the numbers of Kafka's ACL operations."""
    return sum(1 << operation.value for operation in _OPERATIONS[resource])
