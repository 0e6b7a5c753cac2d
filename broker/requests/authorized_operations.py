"""Which operations a caller may do on a resource, as the bit field that Metadata and Describe answers carry (KIP-430).

Nobody is refused anything yet (authorizers are refused at the start), so everyone may do everything a resource knows.
"""

from __future__ import annotations

from broker.requests.handler import Operation, Resource

NOT_ASKED = -0x80000000
"""What the field holds where the client did not ask."""

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
    """One bit an operation, numbered as Kafka's ACL operations are."""
    return sum(1 << operation.value for operation in _OPERATIONS[resource])
