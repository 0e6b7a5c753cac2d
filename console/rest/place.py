"""Where a resource is: its URL, and its name (a CRN, such as `crn:///kafka=CLUSTER/topic=orders`)."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from console.rest.models import ListMetadata, Metadata, Related

ROOT = "/v3"


class Place(NamedTuple):
    """The place of one resource."""

    url: str
    name: str

    def part(self, collection: str, identity: str | int, kind: str) -> Place:
        """Return the place of a resource in one of the collections of this one."""
        quoted = quote(str(identity), safe="")
        return Place(f"{self.url}/{collection}/{quoted}", f"{self.name}/{kind}={quoted}")

    def only(self, name: str) -> Place:
        """Return the place of a resource that this one has only one of."""
        return Place(f"{self.url}/{name}", f"{self.name}/{name}")

    def link(self, *segments: str) -> Related:
        """Return a link to this resource, or to a collection of it."""
        return Related(related="/".join((self.url, *segments)))

    @property
    def metadata(self) -> Metadata:
        """The metadata of the resource."""
        return Metadata(url=self.url, resource_name=self.name)

    def listed(self, *segments: str) -> ListMetadata:
        """Return the metadata of a collection of this resource."""
        return ListMetadata(url="/".join((self.url, *segments)))


def cluster_place(origin: str, cluster_id: str) -> Place:
    """Return the place of a cluster. origin: scheme, host and port of this API."""
    return Place(f"{origin}{ROOT}", "crn://").part("clusters", cluster_id, "kafka")


def topic_place(cluster: Place, topic: str) -> Place:
    """Return the place of a topic."""
    return cluster.part("topics", topic, "topic")


def partition_place(cluster: Place, topic: str, partition: int) -> Place:
    """Return the place of a partition."""
    return topic_place(cluster, topic).part("partitions", partition, "partition")


def broker_place(cluster: Place, broker_id: int) -> Place:
    """Return the place of a broker."""
    return cluster.part("brokers", broker_id, "broker")


def group_place(cluster: Place, group_id: str) -> Place:
    """Return the place of a consumer group."""
    return cluster.part("consumer-groups", group_id, "consumer-group")


def consumer_place(cluster: Place, group_id: str, consumer_id: str) -> Place:
    """Return the place of a member of a consumer group."""
    return group_place(cluster, group_id).part("consumers", consumer_id, "consumer")


def lag_place(cluster: Place, group_id: str, topic: str, partition: int) -> Place:
    """Return the place of the lag of a group on a partition."""
    return group_place(cluster, group_id).part("lags", topic, "lag").part("partitions", partition, "partition")
