"""Settings of transactions."""

from __future__ import annotations

from storage.setting import (
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    READ_ONLY,
    SHORT,
    Setting,
    table,
)

# fmt: off
TRANSACTION_SETTINGS: dict[str, Setting] = table((
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", AT_LEAST_1,
            LOW, READ_ONLY, "How often transactions that took too long are looked for.", acts=True),
    Setting("transaction.max.timeout.ms", INT, "900000", AT_LEAST_1,
            HIGH, READ_ONLY, "Longest transaction timeout that a producer may ask for.", acts=True),
    Setting("transaction.partition.verification.enable", BOOLEAN, "true", None,
            LOW, CLUSTER_WIDE, acts=True,
            doc="Whether a partition verifies that a transaction has it before records are written."),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", AT_LEAST_1,
            LOW, READ_ONLY, "How often expired transactional ids are looked for.", acts=True),
    Setting("transaction.state.log.load.buffer.size", INT, "5242880", AT_LEAST_1,
            HIGH, READ_ONLY, "Bytes read at a time when the state of transactions is loaded.", acts=True),
    Setting("transaction.state.log.min.isr", INT, "2", AT_LEAST_1,
            HIGH, READ_ONLY, "In-sync replicas that the topic of transactions needs.", acts=True),
    Setting("transaction.state.log.num.partitions", INT, "50", AT_LEAST_1,
            HIGH, READ_ONLY, "Partitions of the topic of transactions.", acts=True),
    Setting("transaction.state.log.replication.factor", SHORT, "3", AT_LEAST_1,
            HIGH, READ_ONLY, "Replication factor of the topic of transactions.", acts=True),
    Setting("transaction.state.log.segment.bytes", INT, "104857600", AT_LEAST_1,
            HIGH, READ_ONLY, "Segment size of the topic of transactions.", acts=True),
    Setting("transactional.id.expiration.ms", INT, "604800000", AT_LEAST_1,
            HIGH, READ_ONLY, "How long an idle transactional id is kept.", acts=True),
))
# fmt: on
