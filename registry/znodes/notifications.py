"""Short-lived sequential znodes with which brokers notify the controller."""

from __future__ import annotations

from registry.znodes.admin import PartitionsZnode
from registry.znodes.znode import Content, EmptyZnode, Znode, to_json

LOG_DIR_FAILURE = 1


class IsrChangeNotificationsZnode(EmptyZnode):
    """Parent of the ISR change notifications."""

    TEMPLATE = "/isr_change_notification"

    @staticmethod
    def path() -> str:
        """The path."""
        return "/isr_change_notification"


class IsrChangeNotificationZnode(PartitionsZnode):
    """Partitions whose leader has changed the ISR in ZooKeeper, below inter.broker.protocol.version 2.7."""

    TEMPLATE = "/isr_change_notification/isr_change_{sequence}"

    @staticmethod
    def path(sequence: str = "") -> str:
        """Path for a sequence number; without, the prefix to create one."""
        return f"/isr_change_notification/isr_change_{sequence}"


class LogDirEventNotificationsZnode(EmptyZnode):
    """Parent of the log directory events."""

    TEMPLATE = "/log_dir_event_notification"

    @staticmethod
    def path() -> str:
        """The path."""
        return "/log_dir_event_notification"


class LogDirEventNotificationZnode(Znode):
    """A log directory of a broker has failed."""

    TEMPLATE = "/log_dir_event_notification/log_dir_event_{sequence}"

    broker: int

    @staticmethod
    def path(sequence: str = "") -> str:
        """Path for a sequence number; without, the prefix to create one."""
        return f"/log_dir_event_notification/log_dir_event_{sequence}"

    def encode(self) -> bytes:
        """JSON in Kafka's order."""
        return to_json({"version": 1, "broker": self.broker, "event": LOG_DIR_FAILURE})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LogDirEventNotificationZnode:
        """Read version 1; there is one kind of event."""
        return cls(broker=Content.parse(data, path).integer("broker"))
