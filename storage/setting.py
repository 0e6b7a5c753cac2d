"""A configuration setting: its name, type, default, rule and documentation.

Settings are declared as rows in the packages that use them (storage/, replication/, broker/). Parsing, DescribeConfigs,
AlterConfigs and docs/configuration.md use the same rows. Values are parsed as in Kafka: white space around a value is
dropped, numbers are decimal with an optional sign and must fit their type, lists are split at commas, and the only
booleans are `true` and `false` (in any case).

A value is `bool | int | float | str | tuple[str, ...] | None`. None means "not set"; it occurs as a default only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import IntEnum

from protocol.surrogates import RULE, has_lone_surrogate

SettingValue = bool | int | float | str | tuple[str, ...] | None

HIDDEN = "[hidden]"
"""Replaces the value of a password in all text that leaves the process."""

HIGH, MEDIUM, LOW = "HIGH", "MEDIUM", "LOW"
READ_ONLY, PER_BROKER, CLUSTER_WIDE = "read-only", "per-broker", "cluster-wide"


class ConfigError(Exception):
    """A setting is unknown, has an invalid value or contradicts another one: `name`, `value` and broken `rule`."""

    def __init__(self, name: str, value: object, rule: str) -> None:
        super().__init__(f"{name}: {rule}" if value is None else f"{name}={value}: {rule}")
        self.name = name
        self.value = value
        self.rule = rule


class SettingType(IntEnum):
    """The type of a value; the numbers are those of DescribeConfigs responses (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT, SettingType.SHORT
LONG, DOUBLE, LIST = SettingType.LONG, SettingType.DOUBLE, SettingType.LIST
CLASS, PASSWORD = SettingType.CLASS, SettingType.PASSWORD

_BITS = {SHORT: 16, INT: 32, LONG: 64}


class Validator(ABC):
    """The rule for a parsed value. `text` describes the valid values as in Kafka's tables."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @abstractmethod
    def broken_rule(self, value: SettingValue) -> str | None:
        """Return the rule that the value breaks, as the end of a sentence; None if the value is valid."""


class Range(Validator):
    """A number from `low` to `high`, both inclusive; None means no bound."""

    __slots__ = ("high", "low")

    def __init__(self, low: float | None, high: float | None = None) -> None:
        super().__init__(f"[{'' if low is None else f'{low},'}...{'' if high is None else f',{high}'}]")
        self.low = low
        self.high = high

    def broken_rule(self, value: SettingValue) -> str | None:
        if not isinstance(value, int | float):
            return "must be set"
        if self.low is not None and value < self.low:
            return f"must be at least {self.low}"
        if self.high is not None and value > self.high:
            return f"must be at most {self.high}"
        return None


AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)


class RangeOr(Validator):
    """A number from `low` to `high` (None: no bound), or the value `other`, which means "choose automatically"."""

    __slots__ = ("high", "low", "other")

    def __init__(self, low: int, high: int | None, other: int, text: str | None = None) -> None:
        super().__init__(text if text is not None else f"[{low},...,{high}] or {other}")
        self.low = low
        self.high = high
        self.other = other

    def broken_rule(self, value: SettingValue) -> str | None:
        if not isinstance(value, int):
            return "must be set"
        if value == self.other or (value >= self.low and (self.high is None or value <= self.high)):
            return None
        if self.high is None:
            return f"must be at least {self.low}, or {self.other}"
        return f"must be from {self.low} to {self.high}, or {self.other}"


class OneOf(Validator):
    """One of several strings; in a list, every element must be one of them."""

    __slots__ = ("choices",)

    def __init__(self, *choices: str) -> None:
        super().__init__(f"[{', '.join(choices)}]")
        self.choices = choices

    def broken_rule(self, value: SettingValue) -> str | None:
        if isinstance(value, tuple):
            wrong = [element for element in value if element not in self.choices]
            return f"every element must be one of {', '.join(self.choices)}" if wrong else None
        return None if value in self.choices else f"must be one of {', '.join(self.choices)}"


class OneOfAnyCase(Validator):
    """One of several strings, in upper or lower case."""

    __slots__ = ("choices",)

    def __init__(self, *choices: str) -> None:
        super().__init__(f"(case insensitive) [{', '.join(choices)}]")
        self.choices = choices

    def broken_rule(self, value: SettingValue) -> str | None:
        if isinstance(value, str) and value.upper() in self.choices:
            return None
        return f"must be one of {', '.join(self.choices)} (in any case)"


class NonEmptyString(Validator):
    """A string that is not empty, or not set."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("non-empty string")

    def broken_rule(self, value: SettingValue) -> str | None:
        return "must not be empty" if value == "" else None


class AnyValue(Validator):
    """Any value of the type; for settings whose valid values Kafka's tables describe in words."""

    __slots__ = ()

    def broken_rule(self, value: SettingValue) -> str | None:
        return None


class ReplicaList(Validator):
    """Throttled replicas: `*`, or `partition:broker` pairs."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("[partitionId]:[brokerId],[partitionId]:[brokerId],...")

    def broken_rule(self, value: SettingValue) -> str | None:
        if not isinstance(value, tuple) or value == ("*",):
            return None
        for element in value:
            partition, _, broker = element.partition(":")
            if element and not (_is_digits(partition) and _is_digits(broker)):
                return "must be * or a list of partition:broker pairs"
        return None


class Setting:
    """One row of a settings table.

    name: Kafka's property name. default: the default as text, None if there is none. acts: whether the setting has an
    effect in Ottla; setting one without effect logs one warning. internal: Kafka omits the setting in DescribeConfigs.
    doc: one sentence for the docs and DescribeConfigs. server: for a topic setting, the broker settings that supply its
    default, in order of precedence.
    """

    __slots__ = (
        "_default",
        "acts",
        "default_text",
        "doc",
        "importance",
        "internal",
        "name",
        "server",
        "type",
        "update_mode",
        "validator",
    )

    def __init__(
        self,
        name: str,
        type: SettingType,  # noqa: A002 - Kafka's word for it
        default: str | None,
        validator: Validator | None,
        importance: str,
        update_mode: str,
        doc: str = "",
        acts: bool = False,
        internal: bool = False,
        server: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.type = type
        self.default_text = default
        self.validator = validator
        self.importance = importance
        self.update_mode = update_mode
        self.doc = doc
        self.acts = acts
        self.internal = internal
        self.server = server
        self._default: SettingValue = None

    def __repr__(self) -> str:
        return f"Setting({self.name})"

    @property
    def default(self) -> SettingValue:
        """The default as a value."""
        if self._default is None and self.default_text is not None:
            self._default = self._convert(self.default_text)
        return self._default

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is SettingType.PASSWORD

    @property
    def attribute(self) -> str:
        """The name in snake case: the attribute of typed views."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> SettingValue:
        """Parse `text` to a value; raises ConfigError with the broken rule."""
        if self.is_sensitive and has_lone_surrogate(text):  # a password is encoded where it is used
            raise self.error(text, RULE)
        value = self._convert(text)
        if self.validator is not None and (rule := self.validator.broken_rule(value)) is not None:
            raise self.error(text, rule)
        return value

    def error(self, value: object, rule: str) -> ConfigError:
        """Return a ConfigError for this setting; the value of a password is hidden."""
        return ConfigError(self.name, HIDDEN if self.is_sensitive else value, rule)

    def text(self, value: SettingValue) -> str | None:
        """Format a value as Kafka does (in DescribeConfigs, in znodes); the inverse of `parse`."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return java_double(value)
        return str(value)

    def _convert(self, text: str) -> SettingValue:
        text = text.strip()
        kind = self.type
        if kind is INT or kind is LONG or kind is SHORT:
            return self._integer(text)
        if kind is BOOLEAN:
            lowered = text.lower()
            if lowered in ("true", "false"):
                return lowered == "true"
            raise self.error(text, "must be true or false")
        if kind is LIST:
            return tuple(element.strip() for element in text.split(",")) if text else ()
        if kind is DOUBLE:
            return self._double(text)
        return text

    def _integer(self, text: str) -> int:
        bits = _BITS[self.type]
        if not _is_digits(text[1:] if text[:1] in ("+", "-") else text):
            raise self.error(text, f"must be a whole number of {bits} bits")
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise self.error(text, f"does not fit into {bits} bits")
        return value

    def _double(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise self.error(text, "must be a number") from None
        if "_" in text or not -1.7976931348623157e308 <= value <= 1.7976931348623157e308:
            raise self.error(text, "must be a number")
        return value


def table(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Return the settings by name."""
    return {setting.name: setting for setting in settings}


def java_double(value: float) -> str:
    """Format a double as Java does: 0.5, 1000.0, 1.7976931348623157E308, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{value!r}"
        return text if "." in text else f"{text}.0"
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    for digits in range(1, 17):  # the shortest mantissa that gives the same number
        short = f"{value:.{digits}e}"
        if float(short) == value:
            mantissa, _, exponent = short.partition("e")
            break
    return f"{mantissa}E{int(exponent)}"


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
