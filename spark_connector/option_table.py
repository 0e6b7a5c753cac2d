"""The options of the source, as data: what the parser knows, and what the documentation is held against."""

from typing import Final, Literal, NamedTuple

Mode = Literal["batch", "stream", "both"]


class Option(NamedTuple):
    """One option of the source. `default` is the text that stands for not setting it, "" for none."""

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
    Option("startingOffsetsByTimestamp", "both", "", f"{_TIMES}; before startingOffsets"),
    Option("startingTimestamp", "both", "", "ms since the epoch, for all partitions; before all other beginnings"),
    Option(
        "startingOffsetsByTimestampStrategy",
        "both",
        "error",
        "where no record is as late as the time of the beginning: error, or latest",
    ),
    Option("endingOffsets", "batch", "latest", 'latest or JSON {"orders": {"0": 23, "1": -1}}; -1 is latest'),
    Option(
        "endingOffsetsByTimestamp", "batch", "", f"{_TIMES}; before endingOffsets; latest where no record is as late"
    ),
    Option("endingTimestamp", "batch", "", "ms since the epoch, for all partitions; before all other ends"),
    Option("failOnDataLoss", "both", "true", "fail when offsets to read are not there any more, or a topic is gone"),
    Option("maxOffsetsPerTrigger", "stream", "", "offsets in one batch, split over partitions by how much each has"),
    Option("minOffsetsPerTrigger", "stream", "", "wait for so many offsets before a batch begins"),
    Option("maxTriggerDelay", "stream", "15m", "wait for minOffsetsPerTrigger no longer than this"),
    Option("minPartitions", "both", "", "Spark partitions to read with, at least: large ranges are split"),
    Option("maxRecordsPerPartition", "both", "", "offsets in one Spark partition, at most: large ranges are split"),
    Option("includeHeaders", "both", "false", "have the column headers"),
    Option("columns", "both", "", "only these columns, separated by commas, in this order"),
    Option("groupIdPrefix", "both", "", "accepted, without effect: no consumer group is joined"),
    Option(
        "commitGroupId", "stream", "", "commit what a batch has read to this consumer group, for tools that show lag"
    ),
    Option("kafkaConsumer.pollTimeoutMs", "both", "120000", "how long a task waits for records before it fails, ms"),
    Option("fetchOffset.numRetries", "both", "3", "how often offsets are asked for again that have gone back"),
    Option("fetchOffset.retryIntervalMs", "both", "10", "how long before that, ms"),
)
BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
IGNORED: Final = frozenset({"path"})
"""What Spark puts among the options by itself, in lower case."""
