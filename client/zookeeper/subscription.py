"""The subscription of a ZooKeeper consumer, and its id."""

import random as random_module
import re
import socket
import time
import uuid
from collections.abc import Iterable, Mapping

from client.options import check_range, refuse
from client.zookeeper.topic_filter import TopicFilter
from registry.znodes.consumers import STATIC


class Subscription:
    """Topics with their numbers of threads (pattern "static"), or one pattern with its number of threads."""

    def __init__(
        self, topics: Mapping[str, int] | Iterable[str], topic_filter: TopicFilter | None, threads: int
    ) -> None:
        """Topics without a number get `threads`. Raises InvalidOptionError."""
        if isinstance(topics, str):
            topics = [topics]
        self.threads = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, threads)
        if (topic_filter is None) == (not self.threads):
            raise refuse("topics", list(self.threads), "pass either topics or a topic_filter")
        self.pattern = STATIC
        if topic_filter is not None:
            self.threads, self.pattern = {topic_filter.text: threads}, topic_filter.pattern
        for count in self.threads.values():
            check_range("threads", count, 1)

    @property
    def is_static(self) -> bool:
        """Whether the subscription names topics (no pattern)."""
        return self.pattern == STATIC


def check_name(option: str, value: str) -> None:
    """Raise InvalidOptionError for an invalid name of a group or consumer, which is also the name of a znode."""
    if re.fullmatch(r"[a-zA-Z0-9._-]+", value) is None or value in (".", ".."):
        raise refuse(option, value, "must be made of letters, digits, dots, underscores and hyphens, as in 0.8")


def consumer_id_string(group_id: str, configured: str | None, random: random_module.Random) -> str:
    """0.8's consumerIdString: the group, then the configured id, or host, time in ms and eight random digits.

    The digits are the first of the high half of a UUID in hexadecimal.
    """
    check_name("group_id", group_id)
    if configured is not None:
        check_name("consumer_id", configured)
        return f"{group_id}_{configured}"
    high_half = uuid.UUID(int=random.getrandbits(128), version=4).int >> 64
    return f"{group_id}_{socket.gethostname()}-{time.time_ns() // 1_000_000}-{f'{high_half:x}'[:8]}"
