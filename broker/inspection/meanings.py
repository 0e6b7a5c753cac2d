"""What each znode of Kafka's tree is for, by the template of its path."""

from __future__ import annotations

from typing import Final

from registry.znodes.tree import is_ours, znode_class

MEANINGS: Final[dict[str, str]] = {
    "/": "The root of the tree, or of the cluster's chroot.",
    "/admin": "Requests of clients to the controller.",
    "/admin/delete_topics": "Has a child for each topic that is to be deleted.",
    "/admin/delete_topics/{topic}": "A topic that the controller deletes. The node goes after the last replica.",
    "/admin/preferred_replica_election": (
        "Partitions that get their preferred leader, as asked by tools before Kafka 2.2."
    ),
    "/admin/reassign_partitions": "Partitions that move to other brokers, as asked by tools before Kafka 2.4.",
    "/brokers": "Live brokers, topics, and the counter of broker ids.",
    "/brokers/ids": "Has an ephemeral child for each live broker. The controller watches it.",
    "/brokers/ids/{broker}": "A live broker with its listeners. Its czxid is the broker epoch.",
    "/brokers/seqid": "Its version counts the broker ids that were generated (broker.id=-1).",
    "/brokers/topics": "Has a child for each topic. The controller watches it to find new topics.",
    "/brokers/topics/{topic}": "The replicas of each partition of a topic, and the topic id.",
    "/brokers/topics/{topic}/partitions": "Has a child for each partition.",
    "/brokers/topics/{topic}/partitions/{partition}": "Parent of the partition's state.",
    "/brokers/topics/{topic}/partitions/{partition}/state": (
        "The leader, the leader epoch and the in-sync replicas (ISR). Its version is the partition epoch."
    ),
    "/cluster": "Parent of the cluster's id.",
    "/cluster/id": "The cluster's id, made by its first broker.",
    "/config": "Dynamic settings, and the notifications of their changes.",
    "/config/changes": "Sequential notifications: each makes the brokers read settings that have changed.",
    "/config/changes/config_change_{sequence}": "Names what has other settings now. Removed after 15 minutes.",
    "/config/{entity_type}": "Has a child for each entity of this kind with settings of its own.",
    "/config/{entity_type}/{entity}": "The settings of one entity.",
    "/config/topics/{topic}": "The settings of a topic that differ from the brokers' defaults.",
    "/config/brokers/{broker}": "The dynamic settings of one broker, or of all (<default>).",
    "/config/clients/{client}": "The quotas of a client id.",
    "/config/users/{user}": "The quotas of a user, and its SCRAM credentials.",
    "/config/users/{user}/clients": "Has a child for each client id of the user that has quotas.",
    "/config/users/{user}/clients/{client}": "The quotas of a user with this client id.",
    "/config/ips/{ip}": "The quota of new connections of an address.",
    "/consumers": "Groups whose consumers coordinate through ZooKeeper, as the first consumers of Kafka did.",
    "/consumers/{group}/ids": "Has an ephemeral child for each live consumer of the group.",
    "/consumers/{group}/ids/{consumer}": "A live consumer and what it subscribes to.",
    "/consumers/{group}/offsets/{topic}/{partition}": "The offset that the group has committed.",
    "/consumers/{group}/owners/{topic}/{partition}": "The consumer that reads the partition.",
    "/controller": "The active controller, ephemeral: the broker that created it has won the election.",
    "/controller_epoch": "The number of elections. Requests of an older controller are refused.",
    "/delegation_token": "Delegation tokens (KIP-48).",
    "/delegation_token/token_changes": "Sequential notifications of changed tokens.",
    "/delegation_token/token_changes/token_change_{sequence}": "Names a token that has changed.",
    "/delegation_token/tokens": "Has a child for each delegation token.",
    "/delegation_token/tokens/{token}": "Owner, renewers and times of a token. Its secret is not stored.",
    "/feature": "The finalized features of the cluster (KIP-584).",
    "/isr_change_notification": "Brokers below protocol 2.7 tell the controller here that an ISR has changed.",
    "/isr_change_notification/isr_change_{sequence}": "Partitions whose leader has changed the ISR.",
    "/kafka-acl": "ACLs with literal names, by resource type.",
    "/kafka-acl/{resource_type}": "Has a child for each resource of this type that has ACLs.",
    "/kafka-acl/{resource_type}/{resource}": "The ACLs of one resource.",
    "/kafka-acl-changes": "Sequential notifications of changed ACLs with literal names.",
    "/kafka-acl-changes/acl_changes_{sequence}": "Names a resource whose ACLs have changed.",
    "/kafka-acl-extended": "ACLs with other patterns: prefixes of names.",
    "/kafka-acl-extended/{pattern_type}": "Parent of the resource types.",
    "/kafka-acl-extended/{pattern_type}/{resource_type}": "Has a child for each prefix that has ACLs.",
    "/kafka-acl-extended/{pattern_type}/{resource_type}/{resource}": "The ACLs of all resources with this prefix.",
    "/kafka-acl-extended-changes": "Sequential notifications of changed ACLs with prefixes.",
    "/kafka-acl-extended-changes/acl_changes_{sequence}": "Names a prefix whose ACLs have changed.",
    "/latest_producer_id_block": "The last block of producer ids that a broker has taken.",
    "/log_dir_event_notification": "Brokers tell the controller here that a log directory has failed.",
    "/log_dir_event_notification/log_dir_event_{sequence}": "A broker whose log directory has failed.",
    "/migration": "The state of a migration to KRaft.",
}
_ZOOKEEPERS: Final = "ZooKeeper's own node."
_OURS: Final = "Part of Kafka's tree, without content of its own."
_UNKNOWN: Final = "Not a node of Kafka's tree."


def meaning_of(path: str) -> str:
    """Return what the node at a path is for, in a sentence."""
    found = znode_class(path)
    if found is not None:
        return MEANINGS[found.TEMPLATE]
    if path == "/zookeeper" or path.startswith("/zookeeper/"):
        return _ZOOKEEPERS
    return _OURS if is_ours(path) else _UNKNOWN
