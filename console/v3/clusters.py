"""Clusters: there is one."""

from __future__ import annotations

from typing import Literal

from console.rest.call import Call
from console.rest.models import OMITTED_IF_NONE, Answer, Listing, ListMetadata, Metadata, Related
from console.rest.place import ROOT, broker_place


class ClusterData(Answer):
    """A cluster."""

    kind: Literal["KafkaCluster"] = "KafkaCluster"
    metadata: Metadata
    cluster_id: str
    controller: Related | None = OMITTED_IF_NONE
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class ClusterList(Listing[ClusterData]):
    """Clusters."""

    kind: Literal["KafkaClusterList"] = "KafkaClusterList"


async def list_clusters(call: Call) -> ClusterList:
    """List the clusters that this API serves: one."""
    url = f"{call.request.url.origin()}{ROOT}/clusters"
    return ClusterList(metadata=ListMetadata(url=url), data=[await get_cluster(call)])


async def get_cluster(call: Call) -> ClusterData:
    """Describe the cluster."""
    described = await call.admin.describe_cluster()
    place, controller = call.place, described.controller_id
    return ClusterData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        controller=None if controller < 0 else broker_place(place, controller).link(),
        acls=place.link("acls"),
        brokers=place.link("brokers"),
        broker_configs=place.link("broker-configs"),
        consumer_groups=place.link("consumer-groups"),
        topics=place.link("topics"),
        partition_reassignments=place.link("topics", "-", "partitions", "-", "reassignment"),
    )
