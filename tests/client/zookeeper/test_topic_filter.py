import pytest

from client.errors import InvalidOptionError
from client.zookeeper.topic_filter import TopicFilter

TOPICS = ["orders", "orders2", "audit-1", "audit-2", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (TopicFilter.white_list("orders"), ["orders"]),
        (TopicFilter.white_list('"orders, audit-.*"'), ["orders", "audit-1", "audit-2"]),
        (TopicFilter.white_list(".*"), ["orders", "orders2", "audit-1", "audit-2"]),
        (TopicFilter.black_list("audit-.*,orders"), ["orders2"]),
        (TopicFilter.black_list("nothing"), ["orders", "orders2", "audit-1", "audit-2"]),
    ],
)
def test_topics_that_match(wanted, expected):
    assert [topic for topic in TOPICS if wanted.allows(topic)] == expected


def test_internal_topics_and_the_text():
    both = TopicFilter.white_list(" 'orders,__.*' ")
    assert both.text == "orders|__.*"
    assert both.allows("__consumer_offsets", exclude_internal_topics=False)
    with pytest.raises(InvalidOptionError, match="regular expression"):
        TopicFilter.white_list("orders(")
