"""The options of the source as data, for the parser; a test compares the documentation with them."""

from typing import Final, Literal, NamedTuple

Mode = Literal["batch", "stream", "both"]


class Option(NamedTuple):
    """One option of the source. `default` is the text for the unset option, "" for none."""

    name: str
    mode: Mode
    default: str
    meaning: str


_TIMES = 'JSON {"orders": {"0": 1000}}, ms since the epoch'
OPTIONS: Final = (
    Option("subscribe", "both", "", "topics, separated by commas"),
    Option("subscribePattern", "both", "", "a regular expression for whole names of topics"),
    Option("assign", "both", "", 'partitions: JSON {"orders": [0, 1]}'),
    Option(
        "startingOffsets",
        "both",
        "earliest (batch), latest (stream)",
        'earliest, latest (stream only) or JSON {"orders": {"0": 23, "1": -2}}; -2 is earliest, -1 latest',
    ),
    Option("startingOffsetsByTimestamp", "both", "", f"{_TIMES}; overrides startingOffsets"),
    Option("startingTimestamp", "both", "", "ms since the epoch, for all partitions; overrides other starting options"),
    Option(
        "startingOffsetsByTimestampStrategy",
        "both",
        "error",
        "error or latest: what to do if no record is at or after the starting timestamp",
    ),
    Option("endingOffsets", "batch", "latest", 'latest or JSON {"orders": {"0": 23, "1": -1}}; -1 is latest'),
    Option(
        "endingOffsetsByTimestamp",
        "batch",
        "",
        f"{_TIMES}; overrides endingOffsets; latest if no record is at or after it",
    ),
    Option("endingTimestamp", "batch", "", "ms since the epoch, for all partitions; overrides other ending options"),
    Option("failOnDataLoss", "both", "true", "fail if offsets to read, or a topic, no longer exist"),
    Option(
        "maxOffsetsPerTrigger", "stream", "", "maximum number of offsets in one batch, split over partitions by backlog"
    ),
    Option("minOffsetsPerTrigger", "stream", "", "wait for this many offsets before a batch begins"),
    Option("maxTriggerDelay", "stream", "15m", "the longest wait for minOffsetsPerTrigger"),
    Option("minPartitions", "both", "", "minimum number of Spark partitions: large ranges are split"),
    Option(
        "maxRecordsPerPartition", "both", "", "maximum number of offsets in one Spark partition: large ranges are split"
    ),
    Option("includeHeaders", "both", "false", "add the column headers"),
    Option("columns", "both", "", "only these columns, separated by commas, in this order"),
    Option("groupIdPrefix", "both", "", "accepted, without effect: the source joins no consumer group"),
    Option(
        "commitGroupId", "stream", "", "commit each batch's offsets to this consumer group, for tools that show lag"
    ),
    Option("kafkaConsumer.pollTimeoutMs", "both", "120000", "how long a task waits for records before it fails, ms"),
    Option("fetchOffset.numRetries", "both", "3", "retries of an offset lookup whose result is below a known offset"),
    Option("fetchOffset.retryIntervalMs", "both", "10", "the wait before each of these retries, ms"),
)
BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
IGNORED: Final = frozenset({"path"})
"""Options that Spark adds by itself, in lower case."""
