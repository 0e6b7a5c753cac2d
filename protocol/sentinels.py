"""The values that Kafka's requests, logs and znodes have for "none" and "unknown"."""

from typing import Final

NO_LEADER: Final = -1
"""A partition without a leader."""
NO_EPOCH: Final = -1
"""No epoch of a leader, a partition or a controller, or one that the sender does not know."""
UNKNOWN_BROKER_EPOCH: Final = -1
"""The sender does not know the epoch of the broker's registration (KIP-380)."""
UNKNOWN_OFFSET: Final = -1
"""There is no such offset, or it is not known yet."""
