"""The options of a query that writes, checked: those of Spark's Kafka sink, and the delivery guarantee."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from client.errors import InvalidOptionError
from client.options import check_choice, refuse
from spark_connector.kafka_options import PREFIX, PRODUCER, client_options

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
# A task's transaction stays open until the whole batch is written. Kafka's default limit is 15 minutes.
TRANSACTION_TIMEOUT_MS: Final = 600_000


class SinkOption(NamedTuple):
    """One option of the sink. `default` is the text for the unset option, "" for none."""

    name: str
    default: str
    meaning: str


OPTIONS: Final = (
    SinkOption("topic", "", "the topic of all rows; overrides the column topic"),
    SinkOption("includeHeaders", "false", "accepted, without effect: the column headers is always written"),
    SinkOption("deliveryGuarantee", AT_LEAST_ONCE, f"{AT_LEAST_ONCE}, or {EXACTLY_ONCE} through transactions"),
    SinkOption("transactionalIdPrefix", "", f"with {EXACTLY_ONCE}: the name of this query in the cluster"),
)
_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
IGNORED: Final = frozenset({"checkpointlocation", "path", "queryname"})
"""Options that Spark adds by itself, in lower case."""


@dataclass(frozen=True)
class SinkOptions:
    """Where and how rows are written. Made by `sink_options`; it can be pickled."""

    client: Mapping[str, Any]
    """Options of Ottla's producer."""
    topic: str | None
    prefix: str | None
    """With exactly once: the prefix of the transactional ids, and of the ledger's topic; else None."""


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Check a query's options. Names may be in any case. Raises InvalidOptionError, which names option and rule."""
    _refuse_unknown(options)
    given = {name.lower(): value for name, value in options.items()}
    client = client_options(options, PRODUCER)
    guarantee = given.get("deliveryguarantee", AT_LEAST_ONCE).strip().lower()
    check_choice("deliveryGuarantee", guarantee, (AT_LEAST_ONCE, EXACTLY_ONCE))
    prefix = given.get("transactionalidprefix")
    if guarantee == EXACTLY_ONCE:
        _check_prefix(prefix)
        _check_transactional(client)
        client.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    elif prefix is not None:
        raise refuse("transactionalIdPrefix", prefix, f"only has a meaning with deliveryGuarantee={EXACTLY_ONCE}")
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise refuse("topic", topic, "must not be empty")
    return SinkOptions(client, None if topic is None else topic.strip(), prefix)


def _check_prefix(prefix: str | None) -> None:
    option = "transactionalIdPrefix"
    if prefix is None:
        rule = f"deliveryGuarantee={EXACTLY_ONCE} needs {option}: a name that is unique to the query and never changes"
        raise InvalidOptionError(option, rule)
    if not 0 < len(prefix) <= 200 or not all(char.isascii() and (char.isalnum() or char in "._-") for char in prefix):
        raise refuse(option, prefix, "must be 1 to 200 letters, digits, dots, underscores or dashes")


def _check_transactional(client: Mapping[str, Any]) -> None:
    if client.get("acks", "all") != "all":
        raise refuse("kafka.acks", client["acks"], f"must be all with deliveryGuarantee={EXACTLY_ONCE}")
    if client.get("enable_idempotence") is False:
        raise refuse("kafka.enable.idempotence", "false", f"must be true with deliveryGuarantee={EXACTLY_ONCE}")


def _refuse_unknown(options: Mapping[str, str]) -> None:
    for name, value in options.items():
        lower = name.lower()
        if lower in _BY_NAME or lower in IGNORED or lower.startswith(PREFIX):
            continue
        near = difflib.get_close_matches(lower, list(_BY_NAME), 1, 0.6)
        names = ", ".join(option.name for option in OPTIONS)
        hint = f"did you mean {_BY_NAME[near[0]].name}?" if near else f"known options: {names} and kafka.*"
        raise refuse(name, value, f"the sink has no such option; {hint}")
