"""The request versions of each inter.broker.protocol.version, as Kafka 3.9 chooses them."""

import pytest

from replication.inter_broker_protocol import InterBrokerProtocol


@pytest.mark.parametrize(
    ("name", "fetch", "list_offsets", "epochs", "leader_and_isr", "update_metadata", "stop_replica"),
    [
        ("0.10.0-IV0", 4, 1, 0, 2, 5, 3),
        ("0.11.0-IV0", 4, 2, 0, 2, 5, 3),
        ("0.11.0-IV1", 5, 2, 0, 2, 5, 3),
        ("1.1-IV0", 7, 2, 0, 2, 5, 3),
        ("2.0-IV0", 7, 2, 1, 2, 5, 3),
        ("2.0-IV1", 8, 3, 1, 2, 5, 3),
        ("2.1-IV1", 8, 4, 2, 2, 5, 3),
        ("2.1-IV2", 10, 4, 2, 2, 5, 3),
        ("2.2-IV1", 10, 5, 2, 2, 5, 3),
        ("2.3-IV1", 11, 5, 3, 2, 5, 3),
        ("2.4-IV0", 11, 5, 3, 3, 5, 3),
        ("2.4-IV1", 11, 5, 3, 4, 6, 3),
        ("2.7-IV1", 12, 5, 3, 4, 6, 3),
        ("2.8-IV0", 12, 6, 4, 4, 6, 3),
        ("2.8-IV1", 12, 6, 4, 5, 7, 3),
        ("3.0-IV1", 12, 7, 4, 5, 7, 3),
        ("3.1-IV0", 13, 7, 4, 5, 7, 3),
        ("3.2-IV0", 13, 7, 4, 6, 7, 3),
        ("3.4-IV0", 13, 7, 4, 7, 8, 4),
        ("3.5-IV0", 14, 8, 4, 7, 8, 4),
        ("3.5-IV1", 15, 8, 4, 7, 8, 4),
        ("3.7-IV4", 16, 8, 4, 7, 8, 4),
        ("3.9-IV0", 17, 9, 4, 7, 8, 4),
    ],
)
def test_versions(name, fetch, list_offsets, epochs, leader_and_isr, update_metadata, stop_replica):
    versions = InterBrokerProtocol(name)
    assert versions.fetch_version == fetch
    assert versions.list_offsets_version == list_offsets
    assert versions.offset_for_leader_epoch_version == epochs
    assert versions.leader_and_isr_version == leader_and_isr
    assert versions.update_metadata_version == update_metadata
    assert versions.stop_replica_version == stop_replica
