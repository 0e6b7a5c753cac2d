"""The options of a query that reads, checked: for batch and stream, with the rules of Spark's Kafka source."""

import difflib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from client.consumer.options import ISOLATION_LEVELS
from client.errors import InvalidOptionError
from client.options import check_choice, refuse
from client.topic_partition import TopicPartition
from spark_connector.kafka_options import CONSUMER, PREFIX, client_options
from spark_connector.option_table import BY_NAME, IGNORED
from spark_connector.schema import column_names
from spark_connector.topic_offsets import EARLIEST, LATEST, Offsets, parse_numbers, parse_partition_numbers

_UNITS_MS: Final = {
    **dict.fromkeys(("", "ms"), 1.0),
    **dict.fromkeys(("us",), 0.001),
    **dict.fromkeys(("s",), 1000.0),
    **dict.fromkeys(("m", "min"), 60_000.0),
    **dict.fromkeys(("h",), 3_600_000.0),
    **dict.fromkeys(("d",), 86_400_000.0),
}


class Subscription(NamedTuple):
    """The partitions to read: of `topics`, of topics whose whole name matches `pattern`, or exactly `partitions`."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    partitions: tuple[TopicPartition, ...] = ()


class Bound(NamedTuple):
    """Where reading begins or ends.

    `kind` "offsets": `numbers`, with EARLIEST and LATEST; "times": `numbers` are timestamps in ms; "time": `number` is
    the timestamp for all partitions. `option` is the name of the option, for messages.
    """

    kind: Literal["earliest", "latest", "offsets", "times", "time"]
    option: str
    numbers: Mapping[TopicPartition, int] = {}
    number: int = 0


@dataclass(frozen=True)
class SourceOptions:
    """What a query reads, and how. Made by `source_options`; it can be pickled."""

    client: Mapping[str, Any]
    subscription: Subscription
    starting: Bound
    ending: Bound | None
    """None for a stream."""
    no_match_is_latest: bool = False
    fail_on_data_loss: bool = True
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: float = 900_000.0
    min_partitions: int | None = None
    max_records: int | None = None
    columns: tuple[str, ...] = field(default_factory=tuple)
    commit_group_id: str | None = None
    poll_timeout_ms: int = 120_000
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10

    @property
    def read_committed(self) -> bool:
        """Whether records of transactions are read only after the commit."""
        return self.client.get("isolation_level") == "read_committed"


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check a query's options. Names may be in any case. Raises InvalidOptionError, which names option and rule."""
    refuse_unknown_names(options)
    texts = {name.lower(): value for name, value in options.items()}
    client = client_options(options, CONSUMER)
    if "isolation_level" in client:
        check_choice(PREFIX + "isolation.level", client["isolation_level"], ISOLATION_LEVELS)
    _check_mode(texts, streaming=streaming)
    most, least = (_number(texts, name, int, None, 1) for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"))
    if most is not None and least is not None and least > most:
        raise refuse("minOffsetsPerTrigger", least, f"must not be above maxOffsetsPerTrigger, which is {most}")
    strategy = texts.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    check_choice("startingOffsetsByTimestampStrategy", strategy, ("error", "latest"))
    return SourceOptions(
        client=client,
        subscription=_subscription(texts),
        starting=_starting(texts, streaming=streaming),
        ending=None if streaming else _ending(texts),
        no_match_is_latest=strategy == "latest",
        fail_on_data_loss=_boolean(texts, "failOnDataLoss", default=True),
        max_offsets=most if streaming else None,
        min_offsets=least if streaming else None,
        max_trigger_delay_ms=_duration_ms("maxTriggerDelay", texts.get("maxtriggerdelay", "15m")),
        min_partitions=_number(texts, "minPartitions", int, None, 1),
        max_records=_number(texts, "maxRecordsPerPartition", int, None, 1),
        columns=column_names(options),
        commit_group_id=texts.get("commitgroupid", "").strip() or None,
        poll_timeout_ms=_number(texts, "kafkaConsumer.pollTimeoutMs", int, 120_000, 1),
        offset_retries=_number(texts, "fetchOffset.numRetries", int, 3, 0),
        offset_retry_interval_ms=_number(texts, "fetchOffset.retryIntervalMs", int, 10, 0),
    )


def refuse_unknown_names(options: Mapping[str, str]) -> None:
    """Raise InvalidOptionError for the first unknown option; the message suggests the most similar one."""
    for name in options:
        lower = name.lower()
        if lower in BY_NAME or lower in IGNORED or lower.startswith(PREFIX):
            continue
        near = difflib.get_close_matches(lower, BY_NAME, 1, 0.6)
        if lower in CONSUMER.translated or lower in CONSUMER.ignored:
            hint = f"did you mean {PREFIX}{lower}?"
        elif near:
            hint = f"did you mean {BY_NAME[near[0]].name}?"
        else:
            hint = "known options: " + ", ".join(sorted(option.name for option in BY_NAME.values()))
        raise InvalidOptionError(name, f"the source has no option {name}: {hint}")


def _check_mode(texts: Mapping[str, str], *, streaming: bool) -> None:
    for name, option in BY_NAME.items():
        if name not in texts:
            continue
        if streaming and option.mode == "batch":
            raise refuse(option.name, texts[name], "a stream has no end: only a batch query may have this option")
        if not streaming and option.mode == "stream":
            warnings.warn(f"option {option.name} has no meaning in a batch query", stacklevel=3)


def _subscription(texts: Mapping[str, str]) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if name.lower() in texts]
    if len(given) != 1:
        found = " and ".join(given) if given else "none of them"
        raise InvalidOptionError(
            given[-1] if given else "subscribe",
            f"exactly one of {', '.join(names)} must be set; the query sets {found}",
        )
    (option,) = given
    text = texts[option.lower()]
    if option == "assign":
        return Subscription(partitions=tuple(parse_partition_numbers(option, text)))
    if not text.strip():
        raise refuse(option, text, "must not be empty")
    if option == "subscribePattern":
        try:
            return Subscription(pattern=re.compile(text.strip()))
        except re.error as error:
            raise refuse(option, text, f"must be a regular expression: {error}") from None
    topics = sorted({topic.strip() for topic in text.split(",")} - {""})
    if not topics:
        raise refuse(option, text, "must name at least one topic")
    return Subscription(topics=tuple(topics))


def _starting(texts: Mapping[str, str], *, streaming: bool) -> Bound:
    option = "startingOffsets"
    bound = _bound(
        texts, "startingTimestamp", "startingOffsetsByTimestamp", option, "latest" if streaming else "earliest"
    )
    if not streaming:
        if bound.kind == "latest":
            raise refuse(option, "latest", "a batch query cannot begin at latest: there would be nothing to read")
        _refuse_number(bound, LATEST, "a batch query cannot begin at latest, which is -1")
    return bound


def _ending(texts: Mapping[str, str]) -> Bound:
    option = "endingOffsets"
    bound = _bound(texts, "endingTimestamp", "endingOffsetsByTimestamp", option, "latest")
    if bound.kind == "earliest":
        raise refuse(option, "earliest", "a batch query cannot end at earliest: there would be nothing to read")
    _refuse_number(bound, EARLIEST, "a batch query cannot end at earliest, which is -2")
    return bound


def _refuse_number(bound: Bound, refused: int, rule: str) -> None:
    for partition, number in bound.numbers.items():
        if bound.kind == "offsets" and number == refused:
            raise refuse(bound.option, f"{partition}: {number}", rule)


def _bound(texts: Mapping[str, str], time: str, times: str, offsets: str, default: str) -> Bound:
    """The first of these that is set: a timestamp for all, timestamps by partition, offsets. Others are ignored."""
    if (text := texts.get(time.lower())) is not None:
        return Bound("time", time, number=_parse(time, text, int, 0))
    if (text := texts.get(times.lower())) is not None:
        return Bound("times", times, parse_numbers(times, text, minimum=0))
    text = texts.get(offsets.lower(), default).strip()
    if text.lower() == "earliest":
        return Bound("earliest", offsets)
    if text.lower() == "latest":
        return Bound("latest", offsets)
    if not text.startswith("{"):
        raise refuse(offsets, text, 'must be earliest, latest or JSON such as {"orders": {"0": 23, "1": -2}}')
    numbers: Offsets = parse_numbers(offsets, text)
    return Bound("offsets", offsets, numbers)


def _number(texts: Mapping[str, str], name: str, parse: Callable[[str], int], default: Any, minimum: int) -> Any:
    text = texts.get(name.lower())
    return default if text is None else _parse(name, text, parse, minimum)


def _parse(name: str, text: str, parse: Callable[[str], int], minimum: int) -> int:
    try:
        number = parse(text.strip())
    except ValueError:
        raise refuse(name, text, "must be a whole number") from None
    if number < minimum:
        raise refuse(name, text, f"must be at least {minimum}")
    return number


def _boolean(texts: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = texts.get(name.lower(), str(default)).strip().lower()
    check_choice(name, text, ("true", "false"))
    return text == "true"


def _duration_ms(name: str, text: str) -> float:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        raise refuse(name, text, "must be a number and a unit: 500ms, 30s, 15m, 1h or 1d")
    return int(match[1]) * _UNITS_MS[match[2]]
