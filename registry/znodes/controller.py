"""Znodes of the controller and the cluster: who leads it, its id, features, and producer ids."""

from __future__ import annotations

from typing import Any

from registry.znodes.java_order import immutable_map_order
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_integer, parse_text, to_json

FEATURES_DISABLED = 0
FEATURES_ENABLED = 1


class RootZnode(Znode):
    """The root, which ZooKeeper makes with empty data."""

    TEMPLATE = "/"

    def encode(self) -> bytes:
        """Empty, not null."""
        return b""

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> RootZnode:
        """Accept whatever is there: the root is not Kafka's."""
        return cls()


class ControllerZnode(Znode):
    """The acting controller: ephemeral. Version 1 has no KRaft epoch."""

    TEMPLATE = "/controller"

    broker: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1
    version: int = 2

    @staticmethod
    def path() -> str:
        """The path."""
        return "/controller"

    def encode(self) -> bytes:
        """JSON in Kafka's order."""
        fields: dict[str, Any] = {"version": self.version, "brokerid": self.broker}
        fields["timestamp"] = str(self.timestamp_ms)
        if self.version >= 2:
            fields["kraftControllerEpoch"] = self.kraft_controller_epoch
        return to_json(fields)

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ControllerZnode:
        """Read versions 1 and 2."""
        content = Content.parse(data, path)
        version = content.version(1, 2)
        epoch = content.integer("kraftControllerEpoch") if content.has("kraftControllerEpoch") else -1
        return cls(
            broker=content.integer("brokerid"),
            timestamp_ms=content.long_text("timestamp"),
            kraft_controller_epoch=epoch,
            version=version,
        )


class ControllerEpochZnode(Znode):
    """How many controllers there have been, in decimal. Every write of a controller is conditional on it."""

    TEMPLATE = "/controller_epoch"

    epoch: int

    @staticmethod
    def path() -> str:
        """The path."""
        return "/controller_epoch"

    def encode(self) -> bytes:
        """Decimal digits."""
        return b"%d" % self.epoch

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ControllerEpochZnode:
        """Read decimal digits."""
        return cls(epoch=parse_integer(parse_text(data, path), path, "the controller epoch", 32))


class ClusterZnode(EmptyZnode):
    """Parent of the cluster's id."""

    TEMPLATE = "/cluster"


class ClusterIdZnode(Znode):
    """The cluster's id, given by its first broker."""

    TEMPLATE = "/cluster/id"

    id: str

    @staticmethod
    def path() -> str:
        """The path."""
        return "/cluster/id"

    def encode(self) -> bytes:
        """JSON; the version is a string here."""
        return to_json({"version": "1", "id": self.id})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ClusterIdZnode:
        """Read the id, whatever the version."""
        return cls(id=Content.parse(data, path).string("id"))


class FeatureZnode(Znode):
    """The finalized features (KIP-584). Version 1 repeats the level as a minimum; 2 has it once."""

    TEMPLATE = "/feature"

    features: dict[str, int] = {}  # finalized level by feature # noqa: RUF012
    status: int = FEATURES_ENABLED
    version: int = 2

    @staticmethod
    def path() -> str:
        """The path."""
        return "/feature"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's hash map."""
        features = {}
        for name in immutable_map_order(self.features):
            level = self.features[name]
            features[name] = {"max_version_level": level}
            if self.version == 1:
                features[name]["min_version_level"] = level
        return to_json({"features": features, "version": self.version, "status": self.status})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> FeatureZnode:
        """Read versions 1 and 2."""
        content = Content.parse(data, path)
        version = content.version(1, 2)
        status = content.integer("status", FEATURES_DISABLED, FEATURES_ENABLED)
        nested = content.object("features")
        features = {}
        for name in nested.names():
            levels = nested.object(name)
            level = levels.integer("max_version_level", 1, 32767)
            if version == 1:
                levels.integer("min_version_level", 1, level)
            features[name] = level
        return cls(features=features, status=status, version=version)


class ProducerIdBlockZnode(Znode):
    """The last block of producer ids given to a broker, both ends inclusive.

    The node is created without data: the first block starts at 0. `decode` refuses null.
    """

    TEMPLATE = "/latest_producer_id_block"

    broker: int
    block_start: int
    block_end: int

    @staticmethod
    def path() -> str:
        """The path."""
        return "/latest_producer_id_block"

    def encode(self) -> bytes:
        """JSON; the ends are strings."""
        start, end = str(self.block_start), str(self.block_end)
        return to_json({"version": 1, "broker": self.broker, "block_start": start, "block_end": end})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ProducerIdBlockZnode:
        """Read version 1."""
        content = Content.parse(data, path)
        start, end = content.long_text("block_start"), content.long_text("block_end")
        if not 0 <= start <= end:
            content.fail("block_end", f"and block_start must be an ascending range from 0 up: {start}, {end}")
        return cls(broker=content.integer("broker"), block_start=start, block_end=end)


class MigrationZnode(Znode):
    """Where a migration to KRaft stands; its presence tells that there is one."""

    TEMPLATE = "/migration"

    kraft_controller_id: int
    kraft_controller_epoch: int
    kraft_metadata_offset: int
    kraft_metadata_epoch: int

    @staticmethod
    def path() -> str:
        """The path."""
        return "/migration"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's hash trie."""
        fields = {"version": 0, **{name: getattr(self, name) for name in self._names}}
        return to_json({name: fields[name] for name in immutable_map_order(fields)})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> MigrationZnode:
        """Read version 0."""
        content = Content.parse(data, path)
        content.version(0, 0)
        return cls(
            kraft_controller_id=content.integer("kraft_controller_id"),
            kraft_controller_epoch=content.integer("kraft_controller_epoch"),
            kraft_metadata_offset=content.long("kraft_metadata_offset"),
            kraft_metadata_epoch=content.integer("kraft_metadata_epoch"),
        )
