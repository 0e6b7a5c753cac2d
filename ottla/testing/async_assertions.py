"""Assertions for tests with asyncio: wait for what a test expects of a cluster, or fail with what was seen instead.

    from ottla.testing import async_assertions as kafka

    records = await kafka.read_topic(servers, "orders", value_deserializer=json.loads)
    await kafka.wait_for_no_lag(servers, "billing")

- `read_topic`: all records of a topic up to its end.
- `wait_for_records`: a topic has a number of records.
- `wait_for_topic`: every broker knows a topic, and its partitions have leaders.
- `wait_for_full_isr`: all replicas of a topic are in sync.
- `wait_for_group`: a group is stable, with a number of members.
- `wait_for_commit`: a group has committed these offsets.
- `wait_for_no_lag`: a group has consumed and committed everything.

The first argument is the bootstrap servers, so they work with every Kafka cluster, also with Apache Kafka. Every
function has a deadline, `timeout_s`, and the options of clients for TLS and SASL, such as `security_protocol`. They
raise AssertionError after the deadline. Errors that a repetition cannot change, such as TopicAuthorizationError, are
raised at once.

`ottla.testing.assertions` has the same functions for tests without asyncio.
"""

from ottla.testing.group_assertions import wait_for_commit, wait_for_group, wait_for_no_lag
from ottla.testing.topic_assertions import read_topic, wait_for_full_isr, wait_for_records, wait_for_topic

__all__ = [
    "read_topic",
    "wait_for_commit",
    "wait_for_full_isr",
    "wait_for_group",
    "wait_for_no_lag",
    "wait_for_records",
    "wait_for_topic",
]
