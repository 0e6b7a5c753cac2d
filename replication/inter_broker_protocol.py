"""What `inter.broker.protocol.version` means for requests between brokers.

During a rolling upgrade from an older Kafka, brokers send the versions of that Kafka. The tables hold the versions that
Kafka 3.9 uses for each value of the setting.
"""

from __future__ import annotations

from storage.log.config import MESSAGE_FORMAT_VERSIONS

_FETCH = {
    "3.9-IV0": 17, "3.7-IV4": 16, "3.5-IV1": 15, "3.5-IV0": 14, "3.1-IV0": 13, "2.7-IV1": 12, "2.3-IV1": 11,
    "2.1-IV2": 10, "2.0-IV1": 8, "1.1-IV0": 7, "0.11.0-IV1": 5, "0.8.0": 4,
}  # fmt: skip
_LIST_OFFSETS = {
    "3.9-IV0": 9, "3.5-IV0": 8, "3.0-IV1": 7, "2.8-IV0": 6, "2.2-IV1": 5, "2.1-IV1": 4, "2.0-IV1": 3, "0.11.0-IV0": 2,
    "0.8.0": 1,
}  # fmt: skip
_OFFSET_FOR_LEADER_EPOCH = {"2.8-IV0": 4, "2.3-IV1": 3, "2.1-IV1": 2, "2.0-IV0": 1, "0.8.0": 0}
_LEADER_AND_ISR = {"3.4-IV0": 7, "3.2-IV0": 6, "2.8-IV1": 5, "2.4-IV1": 4, "2.4-IV0": 3, "0.8.0": 2}
_UPDATE_METADATA = {"3.4-IV0": 8, "2.8-IV1": 7, "2.4-IV1": 6, "0.8.0": 5}
_STOP_REPLICA = {"3.4-IV0": 4, "0.8.0": 3}

FETCH_WITH_NAMES = 12
"""The last Fetch version that names topics: for topics without an id."""


class InterBrokerProtocol:
    """The versions that followers and controllers use, how ISRs are changed, and what znodes contain.

    Brokers always exchange record batches of magic 2. The controller supports brokers from Kafka 2.6 on: for older
    values it sends the requests of 2.6.
    """

    __slots__ = (
        "alters_isr_by_request",
        "feature_znode_version",
        "fetch_version",
        "has_features",
        "has_recovery_state",
        "has_topic_ids",
        "leader_and_isr_version",
        "list_offsets_version",
        "name",
        "offset_for_leader_epoch_version",
        "stop_replica_version",
        "takes_producer_ids_at_start",
        "truncates_on_fetch",
        "update_metadata_version",
    )

    def __init__(self, setting: str) -> None:
        """setting: as in `VersionName`: `3.9-IV0`, or a release for its last version."""
        self.name = _full_name(setting)
        self.fetch_version = _version(_FETCH, self.name)
        self.list_offsets_version = _version(_LIST_OFFSETS, self.name)
        self.offset_for_leader_epoch_version = _version(_OFFSET_FOR_LEADER_EPOCH, self.name)
        self.truncates_on_fetch = _is_at_least(self.name, "2.7-IV1")
        """The answer to a Fetch reports divergence (KIP-595); before, followers send OffsetForLeaderEpoch first."""
        self.alters_isr_by_request = _is_at_least(self.name, "2.7-IV2")
        """Leaders ask the controller to change the ISR (KIP-497); before, they write to ZooKeeper themselves."""
        self.leader_and_isr_version = _version(_LEADER_AND_ISR, self.name)
        self.update_metadata_version = _version(_UPDATE_METADATA, self.name)
        self.stop_replica_version = _version(_STOP_REPLICA, self.name)
        self.has_features = _is_at_least(self.name, "2.7-IV0")
        """Registrations and /feature contain features (KIP-584)."""
        self.feature_znode_version = 2 if _is_at_least(self.name, "3.3-IV0") else 1
        self.has_topic_ids = _is_at_least(self.name, "2.8-IV0")
        """Topics get an id (KIP-516)."""
        self.takes_producer_ids_at_start = not _is_at_least(self.name, "3.0-IV0")
        """Every broker takes a block of producer ids when it starts; from 3.0 on, when it needs one."""
        self.has_recovery_state = _is_at_least(self.name, "3.2-IV0")
        """A leader that was elected from outside the ISR is marked as recovering (KIP-704)."""


def _full_name(setting: str) -> str:
    if setting in MESSAGE_FORMAT_VERSIONS:
        return setting
    parts = setting.split(".")
    release = ".".join(parts[: 3 if parts[0] == "0" else 2])
    return [name for name in MESSAGE_FORMAT_VERSIONS if name.split("-")[0] == release][-1]


def _is_at_least(name: str, other: str) -> bool:
    return MESSAGE_FORMAT_VERSIONS.index(name) >= MESSAGE_FORMAT_VERSIONS.index(other)


def _version(table: dict[str, int], name: str) -> int:
    return next(version for since, version in table.items() if _is_at_least(name, since))
