"""Which topics a consumer with a pattern reads: Kafka 0.8's white and black lists.

The text is a regular expression over whole names in which a comma stands for "or", as in `orders,audit-.*`; spaces and
the quotes around it are dropped, since property files bring them. Other consumers of the group read the same text: it
should mean the same to Java's regular expressions and to Python's.
"""

import re
from typing import Final

from client.options import refuse

WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


class TopicFilter:
    """A white list (`TopicFilter.white_list("orders,audit-.*")`), or a black list: all topics but these.

    Internal topics pass only with `exclude_internal_topics` false. Raises InvalidOptionError for what is no regular
    expression.
    """

    def __init__(self, pattern: str, text: str) -> None:
        self.pattern = pattern
        self.text = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._regex = re.compile(self.text)
        except re.error as error:
            raise refuse("topic_filter", text, f"must be a regular expression: {error}") from None

    @classmethod
    def white_list(cls, text: str) -> "TopicFilter":
        """The topics that match."""
        return cls(WHITE_LIST, text)

    @classmethod
    def black_list(cls, text: str) -> "TopicFilter":
        """The topics that do not match."""
        return cls(BLACK_LIST, text)

    def allows(self, topic: str, *, exclude_internal_topics: bool = True) -> bool:
        """Whether a topic is read."""
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return (self._regex.fullmatch(topic) is not None) == (self.pattern == WHITE_LIST)

    def __repr__(self) -> str:
        return f"TopicFilter.{self.pattern}({self.text!r})"
