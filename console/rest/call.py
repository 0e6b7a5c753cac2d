"""What the handler of an operation gets: the parameters of one request, the clients, and the rights of the sender."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web

from client.admin.admin import Admin
from client.wire.metadata import PartitionMetadata, TopicMetadata
from console.rest.errors import PARTITION_NOT_FOUND, RestError, not_found
from console.rights import Rights
from security.acls.types import Operation, ResourceType

if TYPE_CHECKING:
    from console.rest.models import Asked
    from console.rest.place import Place
    from console.services import ConsoleServices


class Call:
    """One request to an operation, valid as far as its models say."""

    def __init__(
        self,
        request: web.Request,
        services: ConsoleServices,
        admin: Admin,
        rights: Rights,
        cluster_id: str,
        asked: Asked | None,
        query: Mapping[str, str],
    ) -> None:
        """asked: the body."""
        self.request = request
        self.services = services
        self.admin = admin
        self.rights = rights
        self.cluster_id = cluster_id
        self.query = query
        self._asked = asked

    @property
    def place(self) -> Place:
        """The place of the cluster in `/v3`."""
        from console.rest.place import cluster_place  # pydantic takes 100 ms, and the first page does not need it

        return cluster_place(str(self.request.url.origin()), self.cluster_id)

    @property
    def asked(self) -> Any:
        """The body, of the type that the operation's row names."""
        return self._asked

    # -- parameters of the path ---------------------------------------------------------------------------------------

    def text(self, name: str) -> str:
        """Return a parameter of the path."""
        return self.request.match_info[name]

    def number(self, name: str) -> int:
        """Return a number in the path. Raises RestError."""
        text = self.text(name)
        if not (text.isascii() and text.isdigit()) or len(text) > 10:
            raise not_found(f"{name} must be a number, not {text!r}")
        return int(text)

    @property
    def topic_name(self) -> str:
        """The topic in the path."""
        return self.text("topic_name")

    # -- topics -------------------------------------------------------------------------------------------------------

    def sees_topic(self, name: str) -> bool:
        """Return whether the sender may know that a topic exists."""
        return self.rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)

    async def topics(self) -> dict[str, TopicMetadata]:
        """Return all topics that the sender may see, sorted by name."""
        found = await self.admin.describe_topics()
        return {name: topic for name, topic in found.items() if self.sees_topic(name)}

    async def topic(self) -> TopicMetadata:
        """Return the topic in the path. Raises UnknownTopicOrPartitionError, InvalidTopicError."""
        name = self.topic_name
        return (await self.admin.describe_topics([name]))[name]

    async def partition(self) -> PartitionMetadata:
        """Return the partition in the path. Raises RestError, and see `topic`."""
        number = self.number("partition_id")
        topic = await self.topic()
        if number not in topic.partitions:
            raise RestError(404, f"topic {topic.name} has no partition {number}", PARTITION_NOT_FOUND)
        return topic.partitions[number]
