"""Brokers."""

from __future__ import annotations

from typing import Literal

from client.wire.metadata import BrokerMetadata
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.models import Answer, Listing, Metadata, Related
from console.rest.place import broker_place


class BrokerData(Answer):
    """A broker, with its address for clients."""

    kind: Literal["KafkaBroker"] = "KafkaBroker"
    metadata: Metadata
    cluster_id: str
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related


class BrokerList(Listing[BrokerData]):
    """Brokers."""

    kind: Literal["KafkaBrokerList"] = "KafkaBrokerList"


async def list_brokers(call: Call) -> BrokerList:
    """List the live brokers."""
    described = await call.admin.describe_cluster()
    return BrokerList(metadata=call.place.listed("brokers"), data=[_data(call, one) for one in described.brokers])


async def get_broker(call: Call) -> BrokerData:
    """Describe a live broker."""
    return _data(call, await live_broker(call))


async def live_broker(call: Call) -> BrokerMetadata:
    """Return the broker in the path. Raises RestError if there is no such live broker."""
    wanted = call.number("broker_id")
    described = await call.admin.describe_cluster()
    for broker in described.brokers:
        if broker.node_id == wanted:
            return broker
    raise not_found(f"the cluster has no live broker {wanted}")


def _data(call: Call, broker: BrokerMetadata) -> BrokerData:
    place = broker_place(call.place, broker.node_id)
    return BrokerData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        broker_id=broker.node_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=place.link("configs"),
        partition_replicas=place.link("partition-replicas"),
    )
