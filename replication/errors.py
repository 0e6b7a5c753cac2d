"""What can be wrong with a request to a replica. broker/errors.py maps each to Kafka's code."""


class ReplicationError(Exception):
    """Base of everything that replication/ raises."""


class UnknownTopicOrPartitionError(ReplicationError):
    """This broker hosts no such partition."""


class UnknownTopicIdError(ReplicationError):
    """This broker hosts no topic with that id."""


class InconsistentTopicIdError(ReplicationError):
    """The topic id of a request is not the one that this broker knows for the topic's name."""


class NotLeaderOrFollowerError(ReplicationError):
    """This broker does not lead the partition, or leads it no more."""


class FencedLeaderEpochError(ReplicationError):
    """The client's leader epoch is older than the partition's: it must refresh its metadata."""


class UnknownLeaderEpochError(ReplicationError):
    """The client's leader epoch is newer than the partition's: this broker lags behind."""


class NotEnoughReplicasError(ReplicationError):
    """acks=all, and fewer replicas are in sync than min.insync.replicas asks for."""


class NotEnoughReplicasAfterAppendError(ReplicationError):
    """Appended, but not on as many replicas as min.insync.replicas asks for."""


class CommitTimedOutError(ReplicationError):
    """The in-sync replicas did not acknowledge in time."""


class DeletionTimedOutError(ReplicationError):
    """A follower has not deleted records in time as the leader has."""


class LogDirOfflineError(ReplicationError):
    """The log directory that holds the replica has failed."""


class LogDirNotFoundError(ReplicationError):
    """A path that is none of the broker's log directories."""


class ReplicaNotAvailableError(ReplicationError):
    """This broker has no replica of the partition, which others may have."""


class TopicNameTooLongError(ReplicationError):
    """With what a copy's directory has behind it, the name does not fit into a file name."""


class OffsetNotAvailableError(ReplicationError):
    """A new leader does not know yet how far its log is committed (KIP-207)."""


class StaleControllerEpochError(ReplicationError):
    """A request of a controller that has been replaced."""


class StaleBrokerEpochError(ReplicationError):
    """A request meant for an earlier life of this broker."""
