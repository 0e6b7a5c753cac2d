"""sasl.kerberos.principal.to.local.rules, as the documentation of Kafka describes it."""

from __future__ import annotations

import pytest

from security.sasl.kerberos_names import KerberosRuleError, LocalNames, NoMatchingRuleError

REALM = "REALM.COM"
# The rules of the example in that documentation, for one and for two components.
RULES = [
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "DEFAULT",
]


def named(rules: str | list[str], principal: str, realm: str = REALM) -> str | None:
    """The name; None if the client is refused."""
    try:
        return LocalNames([rules] if isinstance(rules, str) else rules, realm).name_of(principal)
    except NoMatchingRuleError:
        return None


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        # DEFAULT: the primary of the default realm
        ("DEFAULT", "alice@REALM.COM", "alice"),
        ("DEFAULT", "kafka/broker.example.org@REALM.COM", "kafka"),
        ("DEFAULT", "alice@OTHER.COM", None),
        ("DEFAULT", "alice@realm.com", None),
        ("DEFAULT", "Alice@REALM.COM", "Alice"),
        # the first rule that applies
        (RULES, "App.service-name@REALM.COM", "service-name"),
        (RULES, "App.service-name/example.com@REALM.COM", "service-name"),
        (RULES, "user/host@REALM.COM", "user"),
        (RULES, "App.service-name@OTHER.COM", "service-name"),
        (RULES, "user@OTHER.COM", None),
        (["RULE:[1:first]", "RULE:[1:second]"], "a@B", "first"),
        # numbers of components, and the format
        ("RULE:[1:$1]", "alice@X", "alice"),
        ("RULE:[1:$1]", "alice/host@X", None),
        ("RULE:[2:$1]", "alice/host@X", "alice"),
        ("RULE:[2:$2]", "alice/host@X", "host"),
        ("RULE:[2:$1]", "alice@X", None),
        ("RULE:[2:$1-$2.$0]", "alice/host@X", "alice-host.X"),
        ("RULE:[1:everybody]", "alice@X", "everybody"),
        ("RULE:[3:$3]", "alice/host@X", None),
        ("RULE:[0:$0]", "alice@X", None),
        # the regular expression must match all of the formatted text
        ("RULE:[1:$1@$0](.*@X)s/@.*//", "alice@X", "alice"),
        ("RULE:[1:$1@$0](.*@X)s/@.*//", "alice@XY", None),
        ("RULE:[1:$1@$0](alice)s/@.*//", "alice@X", None),
        ("RULE:[1:$1]()", "alice@X", None),
        # replacements: the first match or, with g, all of them; without a match the text stays
        ("RULE:[1:$1]s/a/b/", "banana@X", "bbnana"),
        ("RULE:[1:$1]s/a/b/g", "banana@X", "bbnbnb"),
        ("RULE:[1:$1]s/z/b/g", "banana@X", "banana"),
        ("RULE:[1:$1]s/a//g", "banana@X", "bnn"),
        ("RULE:[1:$1]s/(.)(.)(.*)/$2$1$3/", "banana@X", "abnana"),
        ("RULE:[1:$1]s/(b)(z)?.*/$1[$2]/", "banana@X", "b[]"),
        ("RULE:[1:$1]s/(b).*/$12/", "banana@X", "b2"),
        ("RULE:[1:$1]s/b.*/$0$0/", "banana@X", "bananabanana"),
        (r"RULE:[1:$1]s/b.*/\$\\x/", "banana@X", "$\\x"),
        (r"RULE:[1:$1]s/\w+/x/", "bänana@X", "xänana"),
        # case
        ("RULE:[1:$1]/L", "Alice@X", "alice"),
        ("RULE:[1:$1]L", "Alice@X", "alice"),
        ("RULE:[1:$1]/U", "Alice@X", "ALICE"),
        ("RULE:[1:$1]s/li/LI/g/L", "AliceLi@X", "aliceli"),
        ("RULE:[1:$1]s/li/LI//U", "Alice@X", "ALICE"),
        ("RULE:[1:$1](.*)s/e$/E/L", "Alice@X", "alice"),
        # names that are not simple, and principals that are none
        ("RULE:[2:$1/$2]", "alice/host@X", None),
        ("RULE:[1:$1@$0]", "alice@X", None),
        (["RULE:[1:$1@$0]", "RULE:[1:$1]"], "alice@X", None),
        ("RULE:[1:$1]s/.*//", "alice@X", None),
        ("DEFAULT", "@REALM.COM", None),
        ("DEFAULT", "alice", None),
        ("DEFAULT", "a/b/c@REALM.COM", None),
        ("DEFAULT", "a\\@b@REALM.COM", None),
        ("DEFAULT", "alice@REALM.COM@OTHER.COM", None),
        ("DEFAULT", "", None),
    ],
)
def test_a_name(rules: str | list[str], principal: str, name: str | None) -> None:
    assert named(rules, principal) == name


@pytest.mark.parametrize("principal", ["alice@REALM.COM", "alice@"])
def test_without_a_default_realm_default_applies_to_nobody(principal: str) -> None:
    assert named("DEFAULT", principal, realm="") is None


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("", "must be DEFAULT, or RULE"),
        ("FOO", "must be DEFAULT, or RULE"),
        ("default", "must be DEFAULT, or RULE"),
        ("DEFAULT/L", "must be DEFAULT, or RULE"),
        ("RULE:[1:$1", "must be DEFAULT, or RULE"),
        ("RULE:[:$1]", "must be DEFAULT, or RULE"),
        ("RULE:[1:$1](a", "must be DEFAULT, or RULE"),
        ("RULE:[1:$1]s/a/b", "must be DEFAULT, or RULE"),
        ("RULE:[1:$1]/X", "must be DEFAULT, or RULE"),
        ("RULE:[1:$1]/LU", "must be DEFAULT, or RULE"),
        ("RULE:[1:$1]trailing", "must be DEFAULT, or RULE"),
        ("RULE:[1:$2]", r"\$2 in the format must be from \$0 \(the realm\) to \$1"),
        ("RULE:[1:$]", r"\$ in the format"),
        ("RULE:[1:$x]", r"\$ in the format"),
        ("RULE:[1:$1]([a)", "the regular expression .* is invalid"),
        ("RULE:[1:$1]s/*/b/", "the regular expression .* is invalid"),
        ("RULE:[1:$1]s/a/$1/", r"refers to \$1; the pattern has 0 groups"),
        ("RULE:[1:$1]s/(a)/$2/", r"refers to \$2; the pattern has 1 groups"),
        ("RULE:[1:$1]s/(a)/$x/", "needs a number or a character"),
        ("RULE:[1:$1]s/a/b\\/", "needs a number or a character"),
    ],
)
def test_a_rule_that_is_refused(rule: str, reason: str) -> None:
    with pytest.raises(KerberosRuleError, match=reason):
        LocalNames(["DEFAULT", rule], REALM)


def test_no_rule_at_all_is_refused() -> None:
    with pytest.raises(KerberosRuleError, match="there must be a rule"):
        LocalNames([], REALM)
