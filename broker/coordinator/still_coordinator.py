"""Whether an answer from a coordinator's memory, without a write to its log, can still be given.

While the registry does not answer, another broker may have become the coordinator, and this one is not told. A write
would fail then; an answer from memory would be old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replication.leadership_check import is_still_leader

if TYPE_CHECKING:
    from broker.coordinator.coordinator_log import CoordinatorLog
    from broker.services import Services

FETCH_WAITS = 4
"""How many times replica.fetch.wait.max.ms the fetches of followers are waited for: two suffice if nothing is late."""


async def is_still_coordinator(services: Services, log: CoordinatorLog, key: str) -> bool:
    """Return whether this broker coordinates the key, or knows that it does not and says so. May ask its followers."""
    partition = log.partition_for(key)
    if services.certainty.is_sure or log.term_of(partition) is None:
        return True
    wait_s = FETCH_WAITS * services.config.replica_fetch_wait_max_ms / 1000
    return await is_still_leader(services.replicas, log.topic, partition, wait_s)
