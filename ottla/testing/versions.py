"""Version caps: a broker that serves and announces the API versions of an older Kafka release.

    with testing.broker(version="2.8") as broker:

A client then negotiates as with a broker of that release: it uses the versions that it finds, and reports what the
release does not have. Only versions are capped. Answers have the content of Kafka 3.9, and a setting or an error code
that the release does not have still exists.

`VERSIONS` is read off Kafka's sources: the tags 0.11.0.2, 1.0.2, 1.1.1, 2.0.1, 2.1.1, 2.2.2, 2.3.1, 2.4.1, 2.5.1,
2.6.3, 2.7.2, 2.8.2, 3.0.2, 3.1.2, 3.2.3, 3.3.2, 3.4.1, 3.5.2, 3.6.2, 3.7.1, 3.8.0 and 3.9.0, of brokers with ZooKeeper.
Up to 2.3 these are the schemas of each request in `org.apache.kafka.common.requests` (0.11: `Protocol.java`), then
`validVersions` of the message definitions, without unstable versions. kafka-python's table of releases says the same.

The lowest version is 0 everywhere, but for ControlledShutdown in 0.11, which began with 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.authorization.rules import SENT_BY_BROKERS
from broker.requests.api_table import API_TABLE, Api
from protocol.api_keys import ApiKey

RELEASES: Final = (
    "0.11", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
)  # fmt: skip
"""The releases that a broker can pretend to be, oldest first."""

VERSIONS: Final[Mapping[ApiKey, Mapping[str, int]]] = {
    ApiKey.PRODUCE: {"0.11": 3, "1.0": 5, "2.0": 6, "2.1": 7, "2.4": 8, "2.8": 9, "3.7": 10, "3.8": 11},
    ApiKey.FETCH: {"0.11": 5, "1.0": 6, "1.1": 7, "2.0": 8, "2.1": 10, "2.3": 11, "2.7": 12, "3.1": 13, "3.5": 15,
        "3.7": 16, "3.9": 17},
    ApiKey.LIST_OFFSETS: {"0.11": 2, "2.0": 3, "2.1": 4, "2.2": 5, "2.8": 6, "3.0": 7, "3.5": 8, "3.9": 9},
    ApiKey.METADATA: {"0.11": 4, "1.0": 5, "2.0": 6, "2.1": 7, "2.3": 8, "2.4": 9, "2.8": 11, "3.1": 12},
    ApiKey.LEADER_AND_ISR: {"0.11": 0, "1.0": 1, "2.2": 2, "2.4": 4, "2.8": 5, "3.2": 6, "3.4": 7},
    ApiKey.STOP_REPLICA: {"0.11": 0, "2.2": 1, "2.4": 2, "2.6": 3, "3.4": 4},
    ApiKey.UPDATE_METADATA: {"0.11": 3, "1.0": 4, "2.2": 5, "2.4": 6, "2.8": 7, "3.4": 8},
    ApiKey.CONTROLLED_SHUTDOWN: {"0.11": 1, "2.2": 2, "2.4": 3},
    ApiKey.OFFSET_COMMIT: {"0.11": 3, "2.0": 4, "2.1": 6, "2.3": 7, "2.4": 8, "3.7": 9},
    ApiKey.OFFSET_FETCH: {"0.11": 3, "2.0": 4, "2.1": 5, "2.4": 6, "2.5": 7, "3.0": 8, "3.7": 9},
    ApiKey.FIND_COORDINATOR: {"0.11": 1, "2.0": 2, "2.4": 3, "3.0": 4, "3.8": 5, "3.9": 6},
    ApiKey.JOIN_GROUP: {"0.11": 2, "2.0": 3, "2.2": 4, "2.3": 5, "2.4": 6, "2.5": 7, "3.2": 9},
    ApiKey.HEARTBEAT: {"0.11": 1, "2.0": 2, "2.3": 3, "2.4": 4},
    ApiKey.LEAVE_GROUP: {"0.11": 1, "2.0": 2, "2.4": 4, "3.2": 5},
    ApiKey.SYNC_GROUP: {"0.11": 1, "2.0": 2, "2.3": 3, "2.4": 4, "2.5": 5},
    ApiKey.DESCRIBE_GROUPS: {"0.11": 1, "2.0": 2, "2.3": 3, "2.4": 5},
    ApiKey.LIST_GROUPS: {"0.11": 1, "2.0": 2, "2.4": 3, "2.6": 4, "3.8": 5},
    ApiKey.SASL_HANDSHAKE: {"0.11": 0, "1.0": 1},
    ApiKey.API_VERSIONS: {"0.11": 1, "2.0": 2, "2.4": 3, "3.9": 4},
    ApiKey.CREATE_TOPICS: {"0.11": 2, "2.0": 3, "2.4": 5, "2.7": 6, "2.8": 7},
    ApiKey.DELETE_TOPICS: {"0.11": 1, "2.0": 2, "2.1": 3, "2.4": 4, "2.7": 5, "2.8": 6},
    ApiKey.DELETE_RECORDS: {"0.11": 0, "2.0": 1, "2.6": 2},
    ApiKey.INIT_PRODUCER_ID: {"0.11": 0, "2.0": 1, "2.4": 2, "2.5": 3, "2.7": 4, "3.8": 5},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"0.11": 0, "2.0": 1, "2.1": 2, "2.3": 3, "2.8": 4},
    ApiKey.ADD_PARTITIONS_TO_TXN: {"0.11": 0, "2.0": 1, "2.7": 2, "2.8": 3, "3.6": 4, "3.8": 5},
    ApiKey.ADD_OFFSETS_TO_TXN: {"0.11": 0, "2.0": 1, "2.7": 2, "2.8": 3, "3.8": 4},
    ApiKey.END_TXN: {"0.11": 0, "2.0": 1, "2.7": 2, "2.8": 3, "3.8": 4},
    ApiKey.WRITE_TXN_MARKERS: {"0.11": 0, "2.8": 1},
    ApiKey.TXN_OFFSET_COMMIT: {"0.11": 0, "2.0": 1, "2.1": 2, "2.5": 3, "3.8": 4},
    ApiKey.DESCRIBE_ACLS: {"0.11": 0, "2.0": 1, "2.5": 2, "3.3": 3},
    ApiKey.CREATE_ACLS: {"0.11": 0, "2.0": 1, "2.5": 2, "3.3": 3},
    ApiKey.DELETE_ACLS: {"0.11": 0, "2.0": 1, "2.5": 2, "3.3": 3},
    ApiKey.DESCRIBE_CONFIGS: {"0.11": 0, "1.1": 1, "2.0": 2, "2.6": 3, "2.8": 4},
    ApiKey.ALTER_CONFIGS: {"0.11": 0, "2.0": 1, "2.8": 2},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"1.0": 0, "2.0": 1, "2.8": 2},
    ApiKey.DESCRIBE_LOG_DIRS: {"1.0": 0, "2.0": 1, "2.6": 2, "3.2": 3, "3.3": 4},
    ApiKey.SASL_AUTHENTICATE: {"1.0": 0, "2.2": 1, "2.5": 2},
    ApiKey.CREATE_PARTITIONS: {"1.0": 0, "2.0": 1, "2.5": 2, "2.7": 3},
    ApiKey.CREATE_DELEGATION_TOKEN: {"1.1": 0, "2.0": 1, "2.4": 2, "3.3": 3},
    ApiKey.RENEW_DELEGATION_TOKEN: {"1.1": 0, "2.0": 1, "2.5": 2},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {"1.1": 0, "2.0": 1, "2.5": 2},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {"1.1": 0, "2.0": 1, "2.5": 2, "3.3": 3},
    ApiKey.DELETE_GROUPS: {"1.1": 0, "2.0": 1, "2.4": 2},
    ApiKey.ELECT_LEADERS: {"2.2": 0, "2.4": 2},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"2.3": 0, "2.4": 1},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"2.4": 0},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"2.4": 0},
    ApiKey.OFFSET_DELETE: {"2.4": 0},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"2.7": 0},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"2.7": 0},
    ApiKey.ALTER_PARTITION: {"2.7": 0, "3.2": 1, "3.3": 2, "3.5": 3},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"2.6": 0, "2.8": 1},
    ApiKey.ALTER_CLIENT_QUOTAS: {"2.6": 0, "2.8": 1},
    ApiKey.UPDATE_FEATURES: {"2.7": 0, "3.3": 1},
    ApiKey.DESCRIBE_CLUSTER: {"2.8": 0, "3.7": 1},
    ApiKey.DESCRIBE_PRODUCERS: {"2.8": 0},
    ApiKey.DESCRIBE_TRANSACTIONS: {"3.0": 0},
    ApiKey.LIST_TRANSACTIONS: {"3.0": 0, "3.8": 1},
    ApiKey.ALLOCATE_PRODUCER_IDS: {"3.0": 0},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {"3.7": 0},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"3.8": 0},
}  # fmt: skip
"""For each API, the highest version since a release. An API does not exist before its first release."""


_BETWEEN_BROKERS: Final = SENT_BY_BROKERS | {ApiKey.ADD_PARTITIONS_TO_TXN}
"""What a broker of the cluster sends in its newest version; AddPartitionsToTxn verifies transactions (KIP-890)."""


def apis_of(release: str) -> tuple[Api, ...]:
    """Return the APIs that a broker of `release` serves and announces, for `Broker(apis=...)`.

    What brokers send to each other is announced in the versions of the release, but served in all versions.
    release: one of `RELEASES`; a patch release such as "2.8.1" means its minor release. Raises ValueError.
    """
    position = RELEASES.index(_minor(release))
    apis = []
    for api in API_TABLE:
        highest = _highest(api.key, position)
        if highest is not None:
            apis.append(_capped(api, min(highest, api.max_version)))
    return tuple(apis)


def settings_of(release: str) -> dict[str, str]:
    """Return the settings that a broker of `release` has: what brokers send to each other. Raises ValueError.

    Brokers older than 2.6 get the controller's requests of 2.6. Below 2.8, topics have no id, as in these releases.
    """
    minor = _minor(release)
    return {"inter.broker.protocol.version": "0.11.0" if minor == "0.11" else minor}


def _minor(release: str) -> str:
    """Return the row of `RELEASES`. Raises ValueError."""
    parts = release.split(".")
    if all(part.isdecimal() for part in parts) and (minor := ".".join(parts[:2])) in RELEASES:
        return minor
    raise ValueError(f"version {release!r}: must be a Kafka release from {RELEASES[0]} to {RELEASES[-1]}, such as 2.8")


def _highest(key: ApiKey, position: int) -> int | None:
    """Return the highest version in a release; None if the release does not have the API."""
    since = [highest for first, highest in VERSIONS[key].items() if RELEASES.index(first) <= position]
    return max(since, default=None)


def _capped(api: Api, highest: int) -> Api:
    if api.key in _BETWEEN_BROKERS:
        return api._replace(announced_version=highest)
    return api._replace(max_version=highest)
