"""ssl.principal.mapping.rules, compared with Kafka's own mapper."""

import pytest

from security.tls.errors import TlsConfigError
from security.tls.principal_mapping import NoMatchingRuleError, PrincipalMapping
from support.reference import REFERENCE

RECORDED = REFERENCE / "security" / "principal-mapping.tsv"


def recorded():
    lines = RECORDED.read_text().splitlines()[1:]
    return [line.split("\t") for line in lines]


@pytest.mark.parametrize(("rules", "subject", "name"), recorded())
def test_names_are_kafkas(rules, subject, name):
    mapping = PrincipalMapping(rules)
    if name == "ERROR NoMatchingRule":
        with pytest.raises(NoMatchingRuleError):
            mapping.name_of(subject)
    else:
        assert mapping.name_of(subject) == name


WRONG = ["RULE:abc", "RULE:^CN=(.*)$/$1", "RULE:^CN=((.*)$/$1/", "RULE:^CN=(.*)$/$1/X", "default", "FOO", "DEFAULTS"]


@pytest.mark.parametrize("rules", WRONG)
def test_rules_that_are_refused(rules):
    with pytest.raises(TlsConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)


def test_a_slash_and_a_dollar_sign_may_be_escaped():
    assert PrincipalMapping(r"RULE:^CN=(.*)\/(.*)$/$2\$\/$1/").name_of("CN=a/b") == "b$/a"


def test_a_reference_without_any_group_gives_no_name():
    with pytest.raises(NoMatchingRuleError):
        PrincipalMapping("RULE:CN=a/$1/,DEFAULT").name_of("CN=a")
