"""JAAS lines, as Kafka's StreamTokenizer reads them."""

from __future__ import annotations

import pytest

from security.jaas import (
    LOGIN_MODULES,
    PLAIN_MODULE,
    SCRAM_MODULE,
    ZOOKEEPER_MODULE,
    JaasError,
    parse_jaas,
    parse_jaas_file,
    parse_zookeeper_jaas,
)


def test_a_line_of_kafkas_documentation() -> None:
    entry = parse_jaas(
        "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n".replace("\\\n", "\n")
        + 'username="admin"\n password="admin-secret"\n user_admin="admin-secret" user_alice=\'alice-secret\';\n'
    )
    assert entry.login_module == PLAIN_MODULE
    assert entry.control_flag == "required"
    assert entry.options == {
        "username": "admin",
        "password": "admin-secret",
        "user_admin": "admin-secret",
        "user_alice": "alice-secret",
    }
    entry.check_mechanism("PLAIN")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("word", "word"),
        ("a.b-c_d$e", "a.b-c_d$e"),
        ("42", "42"),
        ('""', ""),
        ('"a b;c=d"', "a b;c=d"),
        (r'"a\"b\\c"', 'a"b\\c'),
        (r'"tab\tline\n"', "tab\tline\n"),
        (r'"\101\7"', "A\x07"),
        ("'it is \"quoted\"'", 'it is "quoted"'),
        ('"https://issuer/keys"', "https://issuer/keys"),
        ('"# no /* comment */"', "# no /* comment */"),
        ('"ä€"', "ä€"),
    ],
)
def test_values(value: str, read: str) -> None:
    assert parse_jaas(f"{PLAIN_MODULE} REQUIRED /* a comment */ x = {value} // and one\n;").options == {"x": read}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        (f"{PLAIN_MODULE} required", "must end in a semicolon"),
        (f'{PLAIN_MODULE} required user_a="secret"', "must end in a semicolon"),
        (f"{PLAIN_MODULE};", "a control flag is missing"),
        (f'{PLAIN_MODULE} user_a="secret";', "control flag after the login module must be one of"),
        (f"{PLAIN_MODULE} needed;", "must be one of required, requisite, sufficient, optional"),
        (f"{PLAIN_MODULE} required user_a;", "option 1 has no value"),
        (f"{PLAIN_MODULE} required user_a=;", "the value of an option is missing"),
        (f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;", "one login module"),
        ("no.Such required;", "must be one of com.sun.security.auth.module.Krb5LoginModule, org.apache.kafka"),
        (f'{PLAIN_MODULE} required user_a="secret;', "neither a word nor a quoted text"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_without_its_secrets(line: str, rule: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(line)
    assert rule in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_module_must_be_that_of_the_mechanism() -> None:
    with pytest.raises(JaasError, match="the login module of PLAIN must be"):
        parse_jaas(f"{SCRAM_MODULE} required;").check_mechanism("PLAIN")


def test_every_mechanism_has_a_module() -> None:
    for mechanism, module in LOGIN_MODULES.items():
        parse_jaas(f"{module} required;").check_mechanism(mechanism)


def test_the_options_are_not_shown() -> None:
    assert "hunter2" not in repr(parse_jaas(f"{PLAIN_MODULE} required password=hunter2;"))


FILE = f"""
KafkaServer {{
  org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="admin-secret";  // the broker
}};
/* towards ZooKeeper */
"Client" {{ {ZOOKEEPER_MODULE} required username=kafka password="kafka{{}};secret"; }};
"""


def test_a_file_has_sections() -> None:
    sections = parse_jaas_file(FILE)
    assert list(sections) == ["KafkaServer", "Client"]
    (entry,) = sections["Client"]
    assert entry.login_module == ZOOKEEPER_MODULE
    assert entry.options == {"username": "kafka", "password": "kafka{};secret"}
    assert parse_jaas_file("") == {}
    assert parse_jaas_file("A{};B{x required;y optional;};")["B"][1].control_flag == "optional"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Client", "'{' is missing"),
        ("Client { x required hush=hush; }", "';' is missing"),
        ("Client { x required hush=hush };", "an option or a semicolon is missing before '}'"),
        ("Client { x needed; };", "control flag"),
        ("Client { x required;", "must end in a semicolon"),
        ("A{}; A{};", "same name"),
        ("{ };", "the name of a section is missing"),
    ],
)
def test_a_file_that_breaks_the_format(text: str, rule: str) -> None:
    with pytest.raises(JaasError, match=rule) as caught:
        parse_jaas_file(text)
    assert "hush" not in str(caught.value)


def test_the_modules_of_a_login_to_zookeeper() -> None:
    assert parse_zookeeper_jaas(f"{ZOOKEEPER_MODULE} required username=a;").options == {"username": "a"}
    with pytest.raises(JaasError, match=r"must be one of org\.apache\.zookeeper"):
        parse_zookeeper_jaas(f"{PLAIN_MODULE} required;")
    with pytest.raises(JaasError, match="the login module must be"):
        parse_jaas(f"{ZOOKEEPER_MODULE} required;")
