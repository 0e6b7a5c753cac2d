"""A metadata cache with fake brokers and partition leaders."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import MetadataCache
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from support.fake_broker import FakeBroker

LISTENER = "PLAINTEXT"


def metadata_of(*brokers: FakeBroker, leaders: Mapping[tuple[str, int], int] | None = None) -> MetadataCache:
    """The brokers are alive, the first one is the controller. leaders: broker id by partition."""
    metadata = MetadataCache()
    metadata.update(
        UpdateMetadataRequest(
            controller_id=brokers[0].node_id,
            live_brokers=[
                UpdateMetadataBroker(
                    id=broker.node_id,
                    endpoints=[UpdateMetadataEndpoint(host="127.0.0.1", port=broker.port, listener=LISTENER)],
                )
                for broker in brokers
            ],
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=topic,
                    partition_states=[
                        UpdateMetadataPartitionState(
                            topic_name=topic, partition_index=partition, leader=leader, leader_epoch=0
                        )
                    ],
                )
                for (topic, partition), leader in (leaders or {}).items()
            ],
        )
    )
    return metadata
