"""The topics of a consumer with a pattern: Kafka 0.8's white and black lists.

The text is a regular expression for whole names in which a comma means "or", as in `orders,audit-.*`. Spaces and the
quotes around it are removed, because they are usual in property files. Other consumers of the group read the same text:
it should have the same meaning for Java's regular expressions and for Python's.
"""

import re
from typing import Final

from client.options import refuse

WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


class TopicFilter:
    """A white list (`TopicFilter.white_list("orders,audit-.*")`), or a black list: all topics except these.

    Internal topics pass only with `exclude_internal_topics` false. Raises InvalidOptionError for an invalid regular
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
        """Whether a topic passes."""
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return (self._regex.fullmatch(topic) is not None) == (self.pattern == WHITE_LIST)

    def __repr__(self) -> str:
        return f"TopicFilter.{self.pattern}({self.text!r})"
