"""The operations that a caller may do on a resource, as the bit field in Metadata and Describe answers (KIP-430).

Without an authorizer, every operation of a resource is allowed. With one, `broker/authorization/` corrects the answers.
"""

from __future__ import annotations

from security.acls.types import OPERATIONS_OF, ResourceType

NOT_ASKED = -0x80000000
"""The value of the field if the client did not ask for it."""


def operations_on(resource_type: ResourceType) -> int:
    """Return one bit per operation, with the numbers of Kafka's ACL operations."""
    return sum(1 << operation for operation in OPERATIONS_OF[resource_type])
