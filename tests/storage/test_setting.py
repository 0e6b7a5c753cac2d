"""Setting: text to value and back, and the rules."""

import pytest

from storage.setting import (
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    ConfigError,
    NonEmptyString,
    OneOf,
    OneOfAnyCase,
    Range,
    RangeOr,
    ReplicaList,
    Setting,
    java_double,
)


def setting(kind, validator=None, default=None):
    return Setting("some.name", kind, default, validator, HIGH, READ_ONLY)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (INT, "5", 5),
        (INT, " +5\t", 5),
        (INT, "-2147483648", -(2**31)),
        (INT, "2147483647", 2**31 - 1),
        (SHORT, "-32768", -32768),
        (LONG, "9223372036854775807", 2**63 - 1),
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " false ", False),
        (DOUBLE, "0.5", 0.5),
        (DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (LIST, "", ()),
        (LIST, "a , b,,c", ("a", "b", "", "c")),
        (STRING, "  x y ", "x y"),
        (PASSWORD, " secret ", "secret"),
    ],
)
def test_text_becomes_a_value(kind, text, value):
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "rule"),
    [
        (INT, "", "whole number of 32 bits"),
        (INT, "1.5", "whole number"),
        (INT, "1_000", "whole number"),
        (INT, "--5", "whole number"),
        (INT, "+", "whole number"),
        (INT, "٣", "whole number"),
        (INT, "2147483648", "does not fit into 32 bits"),
        (INT, "-2147483649", "does not fit into 32 bits"),
        (SHORT, "32768", "does not fit into 16 bits"),
        (LONG, "9223372036854775808", "does not fit into 64 bits"),
        (BOOLEAN, "yes", "true or false"),
        (BOOLEAN, "1", "true or false"),
        (DOUBLE, "a", "number"),
        (DOUBLE, "1_0", "number"),
        (DOUBLE, "nan", "number"),
        (DOUBLE, "inf", "number"),
    ],
)
def test_bad_text_is_refused_with_name_value_and_rule(kind, text, rule):
    with pytest.raises(ConfigError) as caught:
        setting(kind).parse(text)
    assert str(caught.value).startswith(f"some.name={text}: ")
    assert rule in str(caught.value)
    assert (caught.value.name, caught.value.value) == ("some.name", text)


@pytest.mark.parametrize(
    ("kind", "validator", "good", "bad"),
    [
        (INT, Range(1), ["1", "2"], ["0", "-1"]),
        (INT, Range(1, 17), ["1", "17"], ["0", "18"]),
        (DOUBLE, Range(0, 0.5), ["0", "0.5"], ["-0.01", "0.51"]),
        (INT, RangeOr(1, 9, -1), ["-1", "1", "9"], ["0", "-2", "10"]),
        (INT, RangeOr(1, None, -1), ["-1", "1", "10000"], ["0", "-2"]),
        (STRING, OneOf("a", "b"), ["a", "b"], ["A", "", "c"]),
        (LIST, OneOf("a", "b"), ["a", "b,a", ""], ["a,c", "a,"]),
        (STRING, OneOfAnyCase("A", "B"), ["a", "B"], ["c", ""]),
        (STRING, NonEmptyString(), ["x"], ["", "  "]),
        (LIST, ReplicaList(), ["", "*", "0:1", "0:1, 1:2"], ["0", "a:b", "*,0:1", "1:", "0:1:2", "-1:0"]),
    ],
)
def test_validators(kind, validator, good, bad):
    for text in good:
        setting(kind, validator).parse(text)
    for text in bad:
        with pytest.raises(ConfigError, match="must"):
            setting(kind, validator).parse(text)


def test_a_password_is_never_shown():
    with pytest.raises(ConfigError) as caught:
        setting(PASSWORD, OneOf("x")).parse("secret")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(setting(PASSWORD, default="secret"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [(INT, "-5"), (BOOLEAN, "true"), (LIST, "a,b"), (LIST, ""), (DOUBLE, "0.5"), (STRING, "x"), (LONG, "0")],
)
def test_values_are_formatted_as_by_kafka(kind, text):
    assert setting(kind).text(setting(kind).parse(text)) == text
    assert setting(kind, default=text).default == setting(kind).parse(text)


def test_no_default_is_none():
    assert setting(INT).default is None
    assert setting(INT).text(None) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (1e6, "1000000.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-2.5, "-2.5"),
    ],
)
def test_doubles_are_written_as_java_does(value, text):
    assert java_double(value) == text
