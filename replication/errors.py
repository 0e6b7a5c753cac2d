"""Errors of requests to a replica. broker/errors.py maps each to Kafka's error code."""


class ReplicationError(Exception):
    """Base of everything that replication/ raises."""


class UnknownTopicOrPartitionError(ReplicationError):
    """This broker hosts no such partition."""


class UnknownTopicIdError(ReplicationError):
    """This broker hosts no topic with that id."""


class InconsistentTopicIdError(ReplicationError):
    """The topic id of a request is not the one that this broker knows for the topic's name."""


class NotLeaderOrFollowerError(ReplicationError):
    """This broker does not lead the partition, or no longer leads it."""


class FencedLeaderEpochError(ReplicationError):
    """The client's leader epoch is older than the partition's: it must refresh its metadata."""


class UnknownLeaderEpochError(ReplicationError):
    """The client's leader epoch is newer than the partition's: this broker lags behind."""


class NotEnoughReplicasError(ReplicationError):
    """acks=all, but fewer replicas are in sync than min.insync.replicas requires."""


class NotEnoughReplicasAfterAppendError(ReplicationError):
    """The records are appended, but on fewer replicas than min.insync.replicas requires."""


class CommitTimedOutError(ReplicationError):
    """The in-sync replicas did not acknowledge in time."""


class DeletionTimedOutError(ReplicationError):
    """A follower has not deleted the records within the timeout."""


class LogDirFullError(ReplicationError):
    """The leader's log directory is full, and another in-sync replica could lead."""


class LogDirOfflineError(ReplicationError):
    """The log directory that holds the replica has failed."""


class LogDirNotFoundError(ReplicationError):
    """The path is not a log directory of this broker."""


class ReplicaNotAvailableError(ReplicationError):
    """This broker has no replica of the partition; other brokers may have one."""


class TopicNameTooLongError(ReplicationError):
    """The topic name, with the suffix of a copy's directory, is too long for a file name."""


class OffsetNotAvailableError(ReplicationError):
    """A new leader does not know yet how far its log is committed (KIP-207)."""


class StaleControllerEpochError(ReplicationError):
    """The request comes from a controller that has been replaced."""


class StaleBrokerEpochError(ReplicationError):
    """The request was meant for an earlier registration of this broker."""
